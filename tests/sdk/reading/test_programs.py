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


def test_what_doctrs_predictor_reads_on_a_page_is_read_back(tmp_path: Path) -> None:
    """By its package with ONNX Runtime, fed RapidOCR's models: docTR's own are on a hub alone."""
    page, drawn = _page_of_words()
    found = _doctrs_predictor()([page])
    path = tmp_path / "doctr.json"
    path.write_text(json.dumps(found.export()), "utf-8")
    document = open_document(path)
    assert document.source is not None
    assert document.source.reader == "doctr"
    (read,) = document.pages
    assert (read.width, read.height) == (800, 480)
    lines = [line for block in found.pages[0].blocks for line in block.lines]
    assert [(word.text, word.segment) for word in read.words] == [
        (word.value, number) for number, line in enumerate(lines) for word in line.words
    ]
    assert [word.text for word in read.words] == [text for text, _ in drawn]
    for word, (_, box) in zip(read.words, drawn, strict=True):
        around = (word.box.x0, word.box.y0, word.box.x1, word.box.y1)
        assert around == pytest.approx(box, abs=16)


def _page_of_words() -> tuple[Any, list[tuple[str, tuple[float, ...]]]]:
    """Returns a drawn page, its words far apart, and each word's text and box."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (800, 480), "white")
    draw, font, drawn = ImageDraw.Draw(image), ImageFont.load_default(30), []
    lines = [("Invoice", "INV-2207"), ("Date", "2026-03-14"), ("Total", "12.50", "EUR")]
    for line, words in enumerate(lines):
        for column, word in enumerate(words):
            place = (60 + 250 * column, 60 + 130 * line)
            draw.text(place, word, "black", font)
            drawn.append((word, draw.textbbox(place, word, font)))
    return np.asarray(image), drawn


def _doctrs_predictor() -> Any:
    """Returns docTR's predictor of text, whose two models are those of RapidOCR's package."""
    engine = pytest.importorskip("onnxtr.models.engine")
    import numpy as np
    import rapidocr
    from onnxruntime import InferenceSession, SessionOptions
    from onnxtr.models import ocr_predictor
    from onnxtr.models.detection import DBNet
    from onnxtr.models.recognition import CRNN
    from scipy.special import expit

    def of_size(**sizes: int) -> Any:
        options = SessionOptions()
        for number, size in sizes.items():
            options.add_free_dimension_override_by_name(number.replace("_", "."), size)
        return engine.EngineConfig(session_options=options)

    class BlankFirst(CRNN):  # type: ignore[misc]
        """Their first class is none; docTR's is the last."""

        def run(self, inputs: Any) -> Any:
            return np.roll(super().run(inputs), -1, axis=-1)

    models = Path(rapidocr.__file__).parent / "models"
    (where,), (what,) = (map(str, models.glob(f"*_{kind}_*.onnx")) for kind in ("det", "rec"))
    half = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
    # docTR takes the sigmoid of what is a probability already here: so its limits are, too.
    detection = DBNet(
        where,
        of_size(DynamicDimension_1=1024, DynamicDimension_2=1024),
        *expit([0.3, 0.5]),
        cfg={"input_shape": (3, 1024, 1024), **half},
    )
    characters = InferenceSession(what).get_modelmeta().custom_metadata_map["character"]
    recognition = BlankFirst(
        what,
        "".join(characters.splitlines()) + " ",
        of_size(DynamicDimension_1=320),
        cfg={"input_shape": (3, 48, 320), **half},
    )
    return ocr_predictor(detection, recognition)


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
