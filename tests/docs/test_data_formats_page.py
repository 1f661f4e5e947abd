"""docs/data-formats.md: its line is read, its table is the reader's, and its programs run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hushdoc import labelled_files
from hushdoc.commands.sample import SHIPPED
from hushdoc.document.limits import MAX_WORD_CHARACTERS
from hushdoc_training import labelled_texts
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
    (tmp_path / "documents").mkdir()
    shutil.copy(SHIPPED / "invoice.pdf", tmp_path / "documents")
    rows = ("file,label,value", "invoice.pdf,number,st-015404", "invoice.pdf,vat,nowhere")
    (tmp_path / "values.csv").write_text("\n".join(rows))
    text = "Payment is monthly. Ohio law governs."
    asked = {"id": "C__Governing Law", "answers": [{"text": text[20:], "answer_start": 20}]}
    contract = {"title": "C", "paragraphs": [{"context": text, "qas": [asked]}]}
    (tmp_path / "CUADv1.json").write_text(json.dumps({"data": [contract]}))
    samples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    programs: dict[str, Any] = {}
    for sample in samples:
        exec(compile(sample, "docs/data-formats.md", "exec"), programs)
    said = capsys.readouterr().out
    assert "receipt-17 (Span(page=0, start=1, stop=2, label='total'),)" in said
    assert "invoice.pdf: vat stands nowhere as 'nowhere'" in said
    own = labelled_files.read_one(tmp_path / "own.jsonl")
    (span,) = own.spans
    page = own.document.pages[0]
    assert page.words[span.start].text == "ST-015404"
    box = page.words[span.start].box
    around = (box.x0 / page.width, box.y0 / page.height, box.x1 / page.width, box.y1 / page.height)
    assert programs["spans_in"]("number", 0, page, *around) == [span]
    (found,) = labelled_texts.read_contracts(tmp_path / "cuad.jsonl")
    assert found.spans == (("Governing Law", 20, 37),)


def test_the_lines_of_texts_are_read(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```json\n(\{\"id\".*?)```", PAGE, flags=re.DOTALL)
    clause, message = shown.splitlines()
    (tmp_path / "clauses.jsonl").write_text(clause)
    (tmp_path / "mail.jsonl").write_text(message)
    (contract,) = labelled_texts.read_contracts(tmp_path / "clauses.jsonl")
    ((label, start, stop),) = contract.spans
    assert (label, contract.text[start:stop]) == ("Governing Law", "Ohio law governs.")
    assert labelled_texts.read_messages(tmp_path / "mail.jsonl")[0].label == "bill"
    assert f"at most {labelled_texts.MAX_BYTES // 2**30} GiB unpacked" in PAGE
