"""docs/data-formats.md: its line is read, its table is the reader's, and its programs run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.document.limits import MAX_WORD_CHARACTERS
from hushdoc_training.data import schema, sroie, wildreceipt
from hushdoc_training.data.corpus import Problems

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
    }
    for number, need in enumerate(("required", "optional")):
        keys = {prefix + key for prefix, table in tables.items() for key in table[number]}
        assert stated[need] == keys
    for key in frozenset.union(*labelled_files._QUESTION):
        assert f"`{key}`" in PAGE


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


def example(corpus: str, language: str) -> list[str]:
    """Returns the blocks of a corpus's section that are in a language."""
    section = PAGE.partition(f"\n## {corpus}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


def test_the_receipts_of_sroie_are_read(tmp_path: Path) -> None:
    key, line = map(json.loads, example("SROIE", "json"))
    (tmp_path / "metadata.jsonl").write_text(json.dumps(line))
    (from_line,) = sroie.read(tmp_path, Problems())
    assert {span.label for span in from_line.spans} == set(sroie.FIELDS) - {"date", "address"}
    for folder, name, text in (
        ("box", "X1.csv", example("SROIE", "text")[0]),
        ("key", "X1.json", json.dumps(key)),
    ):
        (tmp_path / "train" / folder).mkdir(parents=True)
        (tmp_path / "train" / folder / name).write_text(text)
    (tmp_path / "train/img").mkdir()
    Image.new("L", (463, 1013)).save(tmp_path / "train/img/X1.jpg")
    (tmp_path / "metadata.jsonl").unlink()
    (from_folders,) = sroie.read(tmp_path, Problems())
    assert [span.label for span in from_folders.spans] == ["company"]


def test_the_receipt_of_wildreceipt_is_read(tmp_path: Path) -> None:
    (line,) = map(json.loads, example("WildReceipt", "json"))
    (tmp_path / "train.txt").write_text(json.dumps(line))
    (found,) = wildreceipt.read(tmp_path, Problems())
    labels = [span.label for span in found.spans]
    assert labels == ["store_name.value", "total.key", "total.value"]
