"""What no training can use is refused before documents are read, which may take hours."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushdoc.__main__ import main

TASKS = ("kie", "docvqa", "images")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [((), 3, "OUTPUT_EXISTS"), (("--resume",), 4, "holds no run to resume")],
)
def test_they_are_refused_before_documents(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    task: str,
    options: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    nowhere = str(tmp_path / "documents")

    command = ["train", task, "--data", nowhere, "--not-private", "--out", str(tmp_path), *options]
    assert main(command) == code
    found = capsys.readouterr().err

    assert said in found
    assert nowhere not in found
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("task", [*TASKS, "clauses", "classifier"])
@pytest.mark.parametrize("number", ["0", "-3"])
def test_no_documents_are_not_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, number: str
) -> None:
    """They were a thousand invented ones."""
    source = {"clauses": "invented:contract", "classifier": "invented:message"}.get(
        task, "invented:receipt"
    )
    command = ["train", task, "--data", source, "--documents", number]
    public = [] if task in ("clauses", "classifier") else ["--public"]
    try:
        code = main([*command, *public, "--out", str(tmp_path / "run")])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code in (2, 3)
    assert f"{number}; " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
