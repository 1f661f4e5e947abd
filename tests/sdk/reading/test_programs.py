"""What OCR programs write here and now: each writes its output in the test, and it is read back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hushdoc.reading import TesseractEngine, open_document


@pytest.mark.tesseract
@pytest.mark.parametrize(("written", "reader"), [("tsv", "tesseract-tsv"), ("hocr", "hocr")])
def test_tesseracts_files_say_what_its_engine_says(
    fixtures: Path, tmp_path: Path, written: str, reader: str
) -> None:
    command = ["tesseract", str(fixtures / "page.png"), str(tmp_path / "out"), written]
    subprocess.run(command, check=True, capture_output=True)
    found = open_document(tmp_path / f"out.{written}")
    asked = open_document(fixtures / "page.png", ocr=TesseractEngine(languages="eng"))
    assert found.source is not None
    assert found.source.reader == reader
    assert [(word.text, word.segment) for word in found.pages[0].words] == [
        (word.text, word.segment) for word in asked.pages[0].words
    ]
    for word, other in zip(found.pages[0].words, asked.pages[0].words, strict=True):
        assert (word.box.x0, word.box.y0) == pytest.approx((other.box.x0, other.box.y0), abs=3)


def test_rapidocrs_json_says_what_its_engine_says(fixtures: Path, tmp_path: Path) -> None:
    from hushdoc.reading import RapidOCREngine

    engine = RapidOCREngine()  # keeps telemetry off before the package is imported
    answer = engine._engine(str(fixtures / "page.png"))
    path = tmp_path / "rapidocr.json"
    path.write_text(json.dumps(answer.to_json()), "utf-8")
    found = open_document(path)
    asked = open_document(fixtures / "page.png", ocr=engine)
    assert found.source is not None
    assert found.source.reader == "rapidocr"
    assert [word.text for word in found.pages[0].words] == [
        word.text for word in asked.pages[0].words
    ]


def test_doctrs_export_is_read_word_by_word(tmp_path: Path) -> None:
    """By its package with ONNX Runtime, whose elements and export are docTR's."""
    elements: Any = pytest.importorskip("onnxtr.io.elements")
    import numpy as np

    words = [
        elements.Word(text, 0.9, ((0.1 * place, 0.2), (0.1 * place + 0.08, 0.25)), 0.9, None)
        for place, text in enumerate(("Total", "due", "12.50"), start=1)
    ]
    line = elements.Line(words)
    page = elements.Page(
        np.zeros((500, 1000, 3), np.uint8), [elements.Block([line])], 0, (500, 1000)
    )
    path = tmp_path / "doctr.json"
    path.write_text(json.dumps(elements.Document([page]).export()), "utf-8")
    document = open_document(path)
    (read,) = document.pages
    assert (read.width, read.height) == (1000, 500)
    assert [(word.text, word.segment) for word in read.words] == [
        ("Total", 0),
        ("due", 0),
        ("12.50", 0),
    ]
    assert read.words[1].box.x0 == pytest.approx(200)
    assert read.words[1].box.y1 == pytest.approx(125)
