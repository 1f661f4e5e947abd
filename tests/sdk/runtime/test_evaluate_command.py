"""`hushdoc evaluate`, run as a program would be, on files of labelled documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hushdoc_command_runs
import hushdoc_tiny as tiny
import pytest
from hushdoc_processes import interpreter

import hushdoc
from hushdoc import labelled_files
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, PolicyViolationError, TaskMismatchError
from hushdoc.labels import LabelledDocument, Span, spans_from_words
from hushdoc.runtime.kie import KIEModel


def document(name: str, first: int = 0) -> Document:
    boxes = [(10 + 60 * (i % 6), 10 + 30 * (i // 6), 60 + 60 * (i % 6), 40) for i in range(6)]
    words = [f"word{first + index}" for index in range(6)]
    return Document.from_words(words, boxes, width=400, height=200, id=name)


@pytest.fixture(scope="module")
def answered() -> list[LabelledDocument]:
    """Documents labelled with just what the model finds in them."""
    with KIEModel.load(tiny.sealed(), policy=tiny.policy()) as model:
        documents = [document(f"d{number}", 6 * number) for number in range(4)]
        return [
            LabelledDocument(
                document=item,
                spans=tuple(
                    span
                    for field in model.extract(item).fields
                    for span in spans_from_words(field.word_ids, label=field.label)
                ),
            )
            for item in documents
        ]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object, artifact: Path | None = None) -> int:
    chosen = ("--policy", "policy.toml", "--threads", "1")
    return hushdoc_command_runs.run("evaluate", artifact or tiny.sealed(), *arguments, *chosen)


def score(capfd: pytest.CaptureFixture[str], documents: Sequence[LabelledDocument]) -> Any:
    labelled_files.write(Path("test.jsonl"), documents, overwrite=True)
    capfd.readouterr()
    code = run("test.jsonl", "--json")
    return {"exit_code": code, **json.loads(capfd.readouterr().out)}


def test_scores_are_of_what_the_model_finds(
    place: Path, capfd: pytest.CaptureFixture[str], answered: list[LabelledDocument]
) -> None:
    """Labels that are the model's own answers have no mistake; each one taken away is one."""
    whole = score(capfd, answered)
    count = sum(len(item.spans) for item in answered)
    assert count > 4
    assert whole["exit_code"] == 0
    assert whole["at_words"]["micro"]["f1"] == whole["by_value"]["micro"]["f1"] == 1.0
    assert whole["at_words"]["micro"]["expected"] == count
    assert (whole["documents"], whole["worst"]) == (4, [])

    first = answered[0]
    lost = first.spans[0]
    less = LabelledDocument(document=first.document, spans=first.spans[1:])
    part = score(capfd, [less, *answered[1:]])
    micro = part["at_words"]["micro"]
    assert (micro["found"], micro["expected"], micro["correct"]) == (count, count - 1, count - 1)
    (worst,) = part["worst"]
    assert (worst["document_id"], worst["missed"]) == ("d0", [])
    assert worst["wrong"][0]["label"] == lost.label
    assert worst["wrong"][0]["word_ids"] == list(range(lost.start, lost.stop))


def test_labels_that_one_side_lacks_are_said(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spans = (Span(page=0, start=0, stop=1, label="iban"),)
    labelled_files.write(Path("t"), [LabelledDocument(document=document("d"), spans=spans)])
    assert run("t") == 0
    printed = capfd.readouterr().out
    assert "Left out, as the model does not know these labels: iban (1)." in printed
    assert "Labels of the model that no document has" in printed
    assert "note: Exact numbers about the documents" in printed
    assert "Most mistakes:" in printed


def test_a_document_that_fails_is_counted_as_missed(
    place: Path, capfd: pytest.CaptureFixture[str], answered: list[LabelledDocument]
) -> None:
    """A model that reads images refuses pages without one; the others are scored."""
    labelled_files.write(Path("test.jsonl"), answered)
    assert run("test.jsonl", artifact=tiny.sealed_with_images()) == 3
    printed, told = capfd.readouterr()
    assert "4 documents failed (4 NO_IMAGE); all their fields count as missed." in printed
    assert "hushdoc evaluate: NO_IMAGE: d0: " in told
    assert "0.000" in printed


def test_a_web_page_shows_the_documents_with_most_mistakes(
    place: Path, capfd: pytest.CaptureFixture[str], answered: list[LabelledDocument]
) -> None:
    bare = [LabelledDocument(document=item.document, spans=()) for item in answered]
    labelled_files.write(Path("test.jsonl"), bare)
    assert run("test.jsonl", "--html", "out.html", "--worst", "2") == 0
    shown = Path("out.html").read_text()
    assert shown.count("<img") == 2
    assert "wrong: " in shown
    assert "out.html" in capfd.readouterr().out


def test_a_malformed_line_ends_it_before_a_model_is_asked(
    place: Path, capfd: pytest.CaptureFixture[str], answered: list[LabelledDocument]
) -> None:
    labelled_files.write(Path("test.jsonl"), answered)
    with Path("test.jsonl").open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(AnnotationError, match="line 5"):
        run("test.jsonl", "--html", "out.html")
    assert capfd.readouterr().out == ""
    assert not Path("out.html").exists()


def test_the_policy_and_the_task_count(place: Path, answered: list[LabelledDocument]) -> None:
    labelled_files.write(Path("test.jsonl"), answered[:1])
    strict = ("--trust", "trust.json", "--max-epsilon", "0.1", "--max-delta", "1e-5")
    with pytest.raises(PolicyViolationError):
        hushdoc_command_runs.run(
            "evaluate", tiny.sealed(), "test.jsonl", *strict, "--unit", "document"
        )
    with pytest.raises(TaskMismatchError):
        run("test.jsonl", artifact=tiny.sealed_classifier("layout"))


def test_a_table_of_clauses_is_scored_on_pages(
    place: Path, capfd: pytest.CaptureFixture[str], answered: list[LabelledDocument]
) -> None:
    labelled_files.write(Path("test.jsonl"), answered)
    assert run("test.jsonl", artifact=tiny.sealed_table("kie")) == 0
    assert "distribution" in capfd.readouterr().out


def test_wrong_usage_is_exit_code_2(place: Path) -> None:
    for option in (("--worst", "-1"), ("--workers", "0")):
        with pytest.raises(SystemExit, match="2"):
            run("test.jsonl", *option)


def test_it_runs_without_torch_and_from_the_program(
    place: Path, answered: list[LabelledDocument]
) -> None:
    labelled_files.write(Path("test.jsonl"), answered)
    program = (
        "import sys; sys.modules['torch'] = None; from hushdoc.__main__ import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    asked = ("evaluate", str(tiny.sealed()), "test.jsonl", "--policy", "policy.toml", "--json")
    done = interpreter("-c", program, *asked)
    assert json.loads(done.stdout)["documents"] == 4
    assert hushdoc.verify(tiny.sealed(), tiny.policy()).passed
