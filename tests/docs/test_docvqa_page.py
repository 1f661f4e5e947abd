"""docs/docvqa.md: its samples run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import hushdoc_command_runs
import hushdoc_tiny as tiny
import pytest
from hushdoc_documents import document

import hushdoc

TEXT = (Path(__file__).parents[2] / "docs/docvqa.md").read_text("utf-8")


def test_the_samples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked").symlink_to(tiny.sealed_pointer())
    (tmp_path / "invoice.json").write_text(json.dumps(document(9).to_dict()))
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    [sample] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(compile(sample, "docs/docvqa.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[4].startswith("What is the total? ")
    assert hushdoc.Answers.from_dict(json.loads(lines[6])).document_id == "d"
    assert json.loads(lines[7])["error"]["code"] == "BAD_INPUT"
    assert "What is the total?" in Path("answer.html").read_text("utf-8")
    asking, *_ = TEXT.split("\n## ", maxsplit=2)[1:]
    [commands] = re.findall(r"```sh\n(.*?)```", asking, flags=re.DOTALL)
    for command in commands.splitlines():
        assert hushdoc_command_runs.run(*shlex.split(command)[1:]) == 0
    assert Path("answer.png").is_file()
