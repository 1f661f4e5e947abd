"""docs/data-formats.md: its line is read, its table is the reader's, and its programs run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.document.limits import MAX_WORD_CHARACTERS
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import cord, dataset, docile, schema, sroie, xfund

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


def converted(source: Path, corpus: str) -> list[LabelledDocument]:
    """Returns what `hushdoc data convert` makes of files that one reader alone may know."""
    assert [known.name for known in dataset.CORPORA if known.recognises(source)] == [corpus]
    out = source.with_name(f"{source.name}-{corpus}.jsonl")
    out.unlink(missing_ok=True)
    assert main(["data", "convert", str(source), str(out)]) == 0
    return list(labelled_files.read(out))


def test_the_receipts_of_sroie_are_read(tmp_path: Path) -> None:
    key, line = map(json.loads, example("SROIE", "json"))
    (tmp_path / "metadata.jsonl").write_text(json.dumps(line))
    (from_line,) = converted(tmp_path, "sroie")
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
    (from_folders,) = converted(tmp_path, "sroie")
    assert [span.label for span in from_folders.spans] == ["company"]


def test_the_receipt_of_wildreceipt_is_read(tmp_path: Path) -> None:
    (line,) = map(json.loads, example("WildReceipt", "json"))
    (tmp_path / "train.txt").write_text(json.dumps(line))
    (found,) = converted(tmp_path, "wildreceipt")
    labels = [span.label for span in found.spans]
    assert labels == ["store_name.value", "total.key", "total.value"]


def values(labelled: LabelledDocument) -> list[tuple[str, str]]:
    (page,) = labelled.document.pages
    return [
        (span.label, " ".join(word.text for word in page.words[span.start : span.stop]))
        for span in labelled.spans
    ]


def test_the_forms_of_funsd_and_xfund_are_read(tmp_path: Path) -> None:
    english, chinese = example("FUNSD and XFUND", "json")
    for folder in ("annotations", "images"):
        (tmp_path / folder).mkdir()
    (tmp_path / "annotations" / "a.json").write_text(english)
    Image.new("L", (100, 100)).save(tmp_path / "images" / "a.png")
    (form,) = converted(tmp_path, "funsd")
    assert values(form) == [("question", "Date:"), ("answer", "9 May")]
    (tmp_path / "zh.train.json").write_text(chinese, encoding="utf-8")
    (form,) = converted(tmp_path / "zh.train.json", "xfund")
    assert form.questions[0].answers == ("王明",)
    assert f"({', '.join(xfund.LANGUAGES)})" in PAGE


def test_the_receipt_of_cord_is_read(tmp_path: Path) -> None:
    (shown,) = example("CORD", "json")
    for folder in ("json", "image"):
        (tmp_path / folder).mkdir()
    (tmp_path / "json" / "receipt_00000.json").write_text(shown)
    (receipt,) = converted(tmp_path, "cord")
    assert values(receipt) == [("menu.nm", "Nasi"), ("total.total_price", "45.000")]
    assert f"Receipts with {len(cord.LABELS.fields)} fields such" in PAGE


def test_the_document_of_docile_is_read(tmp_path: Path) -> None:
    for folder, shown in zip(("annotations", "ocr"), example("DocILE", "json"), strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text(shown)
    (tmp_path / "train.json").write_text('["a"]')
    (document,) = converted(tmp_path, "docile")
    assert values(document) == [("amount_due", "4,585.49")]
    assert f"with {len(docile.LABELS.fields)} fields" in PAGE
    assert docile.OVERLAP == 0.5  # "at least half of the area"
