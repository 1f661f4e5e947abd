"""Names that every system reads alike, and lists of files that mean one thing."""

from __future__ import annotations

from typing import Any

import pytest

from hushdoc.certificate.subjects import Subject, name_problem, names_problem, read_subjects
from hushdoc.errors import CertificateError

DIGEST = "ab" * 32


def entry(name: str = "labels.json", **change: Any) -> dict[str, Any]:
    sound = {"name": name, "digest": {"sha256": DIGEST}, "annotations": {"size": 3}}
    return {**sound, **change}


def code_of(data: Any) -> str:
    with pytest.raises(CertificateError) as caught:
        read_subjects(data)
    return caught.value.code


def test_a_list_of_files_is_read() -> None:
    assert read_subjects([entry(), entry("onnx/model.onnx")]) == (
        Subject(name="labels.json", sha256=DIGEST, size=3),
        Subject(name="onnx/model.onnx", sha256=DIGEST, size=3),
    )


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "a/b/c/d", "x" * 200, "con2", "nullify.json"])
def test_plain_names_pass(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../labels.json",
        "a/../b",
        "a/..",
        "a//b",
        "/etc/passwd",
        "a/",
        "a\\b",
        "C:",
        "C:x",
        "a:stream",
        ".hidden",
        "-rf",
        "_x",
        "a\0b",
        "a\nb",
        "a b",
        "a.",
        "a./b",
        "con",
        "CON",
        "nul.json",
        "a/aux.onnx",
        "com1",
        "lpt9.txt",
        "lаbels.json",  # noqa: RUF001 - a Cyrillic letter
        "ﬁle",
        "é",
        "e\u0301",
        "a\u202eb",
        "x" * 201,
        "a/b/c/d/e",
        "a/./b",
        ".git/config",
        "NUL.txt",
        "a/lpt1.json",
        "\uff4dodel",
        "m\u043edel.onnx",
    ],
)
def test_names_that_some_system_reads_otherwise_are_refused(name: str) -> None:
    assert name_problem(name) is not None
    assert code_of([entry(name)]) == "BAD_PATH"


def test_the_signature_can_not_be_signed() -> None:
    for name in ("privacy.intoto.jsonl", "Privacy.InToto.jsonl"):
        assert code_of([entry(name)]) == "BAD_PATH"


@pytest.mark.parametrize(
    "names",
    [
        ["a", "a"],
        ["a", "A"],
        ["a/x", "A/y"],
        ["onnx/a", "Onnx/b"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["straSSe", "strasse"],
    ],
)
def test_names_that_are_one_on_some_systems_are_refused(names: list[str]) -> None:
    assert names_problem(names) is not None
    assert code_of([entry(name) for name in names]) == "BAD_SUBJECT"


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        [entry()] * 2000,
        ["labels.json"],
        [entry(digest={})],
        [entry(digest={"sha256": DIGEST, "sha1": "x"})],
        [entry(digest={"sha256": DIGEST.upper()})],
        [entry(digest={"sha256": DIGEST[:-1]})],
        [entry(digest={"sha256": 5})],
        [entry(annotations={})],
        [entry(annotations={"size": -1})],
        [entry(annotations={"size": True})],
        [entry(annotations={"size": 3.0})],
        [entry(annotations={"size": 3, "note": "x"})],
        [entry(uri="https://example.org")],
        [entry(digest={"sha1": "ef" * 20})],
        [entry(name=1)],
        [{}],
        [None],
    ],
)
def test_malformed_lists_are_refused(data: Any) -> None:
    assert code_of(data) == "BAD_SUBJECT"
