"""docs/data-formats.md: its line is read, its table is the reader's, and its programs run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hushdoc import labelled_files
from hushdoc.document.limits import MAX_WORD_CHARACTERS
from hushdoc_training.data import schema

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/data-formats.md").read_text("utf-8")


def test_the_line_is_one_of_the_format(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```json\n(\{\"format.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "shown.jsonl").write_text(json.dumps(json.loads(shown)))
    found = labelled_files.read_one(tmp_path / "shown.jsonl")
    assert labelled_files.to_dict(found, folder=tmp_path) == json.loads(shown)


def test_the_table_has_every_key() -> None:
    rows = re.findall(r"^\| (`.*?`) \| (required|optional) \|", PAGE, flags=re.MULTILINE)
    stated = {"required": set[str](), "optional": set[str]()}
    for names, need in rows:
        first, *others = re.findall(r"`([^`]+)`", names)
        stated[need] |= {first, *(f"{first.rpartition('.')[0]}.{other}" for other in others)}
    tables = {
        "": labelled_files._DOCUMENT,
        "pages[].": labelled_files._PAGE,
        "pages[].words[].": labelled_files._WORD,
        "spans[].": labelled_files._SPAN,
        "questions[].": labelled_files._QUESTION,
    }
    for number, need in enumerate(("required", "optional")):
        keys = {prefix + key for prefix, table in tables.items() for key in table[number]}
        assert stated[need] == keys


def test_the_schema_is_read(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "labels.toml").write_text(shown)
    assert schema.read(tmp_path / "labels.toml") == ["total", "date"]


def test_limits_are_those_of_the_code() -> None:
    mebibytes, gibibytes = re.findall(r"(\d+) MiB at most, and a file\s(\d+) GiB", PAGE)[0]
    assert int(mebibytes) * 2**20 == labelled_files.MAX_LINE_BYTES
    assert int(gibibytes) * 2**30 == labelled_files.MAX_BYTES
    assert f"at most {MAX_WORD_CHARACTERS} characters" in PAGE


def test_the_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    samples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    for sample in samples:
        exec(compile(sample, "docs/data-formats.md", "exec"), {})
    assert "receipt-17 (Span(page=0, start=1, stop=2, label='total'),)" in capsys.readouterr().out
