"""Which class and which subcommand runs which artifact, and what is said where one does not fit."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import hushdoc_tiny as tiny
import pytest
from hushdoc_tiny import ARTIFACTS, artifact_of

import hushdoc
from hushdoc.__main__ import main
from hushdoc.certificate.certificate import TASKS
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, DeviceUnavailableError, TaskMismatchError
from hushdoc.runtime.model import CLASS_NAMES, SUBCOMMANDS, read_names

CLASSES = {name: class_name for name, (class_name, _) in ARTIFACTS.items()}


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_artifact_is_loaded_by_hushdoc_load_and_by_its_class(name: str) -> None:
    for load in (hushdoc.load, getattr(hushdoc, CLASSES[name]).load):
        model = load(artifact_of(name), policy=tiny.policy())
        assert type(model).__name__ == CLASSES[name]
        assert model.certificate.model.task in TASKS


@pytest.mark.parametrize("class_name", SUBCOMMANDS)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_other_classes_name_the_one_that_fits(name: str, class_name: str) -> None:
    fits = CLASSES[name]
    if class_name == fits:
        return
    with pytest.raises(TaskMismatchError, match=f"{class_name} can't run it") as raised:
        getattr(hushdoc, class_name).load(artifact_of(name), policy=tiny.policy())
    assert raised.value.code == "TASK_MISMATCH"
    assert f"hushdoc.{fits}, or use `hushdoc {SUBCOMMANDS[fits]}`" in str(raised.value)


@pytest.mark.parametrize(
    ("subcommand", "name"),
    [
        ("classify", "clauses"),
        ("classify", "fields"),
        ("classify", "vectors"),
        ("extract", "table of classes"),
        ("extract", "classes"),
        ("embed", "fields"),
        ("embed", "answers"),
        ("redact", "table of classes"),
    ],
)
def test_subcommands_name_the_one_that_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subcommand: str, name: str
) -> None:
    (tmp_path / "a.txt").write_text("Governed by the laws of Utah.")
    (tmp_path / "trust.json").write_bytes(tiny.TRUST.to_json())
    asked = [subcommand, str(artifact_of(name)), str(tmp_path / "a.txt"), "--integrity-only"]
    asked += ["--trust", str(tmp_path / "trust.json")]
    asked += ["--out", str(tmp_path / "out")] if subcommand == "redact" else []
    assert main(asked) == TaskMismatchError.exit_code
    printed = capsys.readouterr().err
    assert "TASK_MISMATCH" in printed
    assert f"`hushdoc {SUBCOMMANDS[CLASSES[name]]}`" in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["fields", "layouts", "images", "answers"])
def test_plain_texts_are_not_for_models_of_pages(name: str) -> None:
    model: Any = hushdoc.load(artifact_of(name), policy=tiny.policy())
    ask = {
        "fields": lambda document: model.extract(document),
        "answers": lambda document: model.ask(document, "What is the total?"),
    }.get(name, lambda document: model.classify(document))
    with pytest.raises(TaskMismatchError, match="is a plain text, and this model reads") as raised:
        ask(Document.from_text("Total 12.50"))
    assert raised.value.code == "TASK_MISMATCH"
    assert "hushdoc.HashedCRFModel" in str(raised.value)


def test_a_task_of_a_later_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(CLASS_NAMES, ("docvqa", "onnx"))
    folder = tiny.resealed(tmp_path / "artifact", task="docvqa")
    for load in (hushdoc.load, hushdoc.KIEModel.load):
        with pytest.raises(TaskMismatchError, match="'docvqa'.* Install the version"):
            load(folder, policy=tiny.policy())


@pytest.mark.parametrize("name", ["clauses", "table of classes"])
def test_tables_run_on_the_cpu_only(name: str) -> None:
    for load in (hushdoc.load, getattr(hushdoc, CLASSES[name]).load):
        with pytest.raises(DeviceUnavailableError, match="on the cpu only"):
            load(artifact_of(name), policy=tiny.policy(), device="cuda")


def test_the_table_of_classes_names_what_is_public() -> None:
    assert set(CLASS_NAMES.values()) == set(SUBCOMMANDS) <= set(hushdoc.__all__)
    assert all(re.fullmatch("[a-z]+", command) for command in SUBCOMMANDS.values())


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"tags": [' + b"9" * 5000 + b"]}", b'{"tags": ["a"], "tags": ["b"]}', b"7"],
    ids=["deep", "many-digits", "a-key-twice", "no-object"],
)
def test_labels_that_exhaust_a_parser_or_are_ambiguous_are_an_artifact_error(
    content: bytes,
) -> None:
    artifact = cast("Any", SimpleNamespace(read=lambda name: content))
    with pytest.raises(ArtifactError, match=r"labels\.json can't be read") as raised:
        read_names(artifact, "tags")
    assert len(str(raised.value)) < 1000
