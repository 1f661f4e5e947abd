"""Names that every system reads alike; `tests/hostile/test_paths.py` has more that are not."""

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


@pytest.mark.parametrize("name", ["_x", "a./b", "a/./b", "C:", "con", "com1", ".git/config"])
def test_names_that_some_system_reads_otherwise_are_refused(name: str) -> None:
    assert name_problem(name) is not None
    assert code_of([entry(name)]) == "BAD_PATH"


@pytest.mark.parametrize("names", [["a/x", "A/y"], ["a/b", "a"], ["straSSe", "strasse"]])
def test_names_that_are_one_on_some_systems_are_refused(names: list[str]) -> None:
    assert names_problem(names) is not None
    assert code_of([entry(name) for name in names]) == "BAD_SUBJECT"


@pytest.mark.parametrize(
    "data",
    [None, ["labels.json"], [{}], [None], [entry(annotations={"size": 3, "note": "x"})]],
)
def test_malformed_lists_are_refused(data: Any) -> None:
    assert code_of(data) == "BAD_SUBJECT"
