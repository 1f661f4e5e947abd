"""One door: whatever a reader raises is a typed error that names the file and tells none of it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_pdf_files as pdfs
import pytest
from PIL import Image

from hushdoc.arguments import MalformedError, reading_as
from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.errors import HushdocError, InputError, UnsupportedFormatError
from hushdoc.reading import (
    OCRCache,
    ReadingWarning,
    formats,
    from_hocr,
    images,
    open_document,
    opening,
    page_image,
    pdf,
    pdf_text,
)
from hushdoc.reading import text as texts

SECRET = "the patient's diagnosis"
PAGE = "<div class='ocr_page' title='bbox 0 0 99 99'>"


class OddError(Exception):
    """What no reader was ever seen to raise."""


def boom(*_: Any, **__: Any) -> Any:
    raise OddError(SECRET)


@pytest.mark.parametrize(
    "inside",
    [
        f"<span class='ocrx_word' title='bbox 1 1 9 9'>&#{'9' * 4301}",
        f"<span class='ocrx_word' title='bbox 1 1 9 9'>&#{'9' * 5000};</span>",
        f"<span class='ocr_line' title='&#{'9' * 5000}; bbox 1 1 9 9'>a</span>",
    ],
)
def test_an_entity_of_thousands_of_digits_is_a_typed_error(inside: str) -> None:
    for read in (from_hocr, lambda text: open_document(text.encode())):
        with pytest.raises(UnsupportedFormatError, match="can't be read as hOCR") as raised:
            read(PAGE + inside + "</div>")
        assert isinstance(raised.value.__cause__, ValueError)


def files(fixtures: Path) -> dict[str, bytes]:
    """Returns a sound file of every format that is read."""
    found = {"pdf": pdfs.file([pdfs.shown("Total 1")]), "text": b"A text.\n"}
    found["image"] = (fixtures / "page.png").read_bytes()
    own = Document.from_words(["a"], [(1, 1, 2, 2)], width=9, height=9)
    found["document"] = json.dumps(own.to_dict()).encode()
    for name, path in {
        "hocr": "tesseract.hocr",
        "tesseract-tsv": "tesseract.tsv",
        "azure-read": "azure_read.json",
        "docling": "docling.json",
        "doctr": "doctr.json",
        "document-ai": "document_ai.json",
        "rapidocr": "rapidocr.json",
        "textract": "captured/textract.json",
    }.items():
        found[name] = (fixtures / path).read_bytes()
    return found


@pytest.mark.parametrize("form", [name for name in opening.FORMATS if name != "auto"])
def test_what_no_reader_should_raise_is_typed_and_names_the_file(
    form: str, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scan.bin"
    path.write_bytes(files(fixtures)[form])
    open_document(path, format=form, ocr=Engine(), cache=OCRCache())
    monkeypatch.setattr(texts, "from_text", boom)
    monkeypatch.setattr(Document, "from_dict", boom)
    monkeypatch.setattr(images, "frames", boom)
    monkeypatch.setattr(pdf, "text_page", boom)
    monkeypatch.setattr(formats, "read_adapted", boom)
    with pytest.raises(InputError, match=r"scan") as raised:
        open_document(path, format=form, ocr=Engine(), cache=OCRCache())
    assert isinstance(raised.value.__cause__, OddError)
    assert SECRET not in str(raised.value)


class Engine:
    """An engine of the application's own."""

    name, version = "own", "1"

    def read(self, image: Image.Image) -> list[Any]:
        from hushdoc.document.page import Box, Word

        return [Word(text="a", box=Box(x0=0, y0=0, x1=1, y1=1))]


def test_a_page_that_cannot_be_drawn_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdfs.file([pdfs.shown("Total 1")]))
    page: Page = open_document(path).pages[0]
    monkeypatch.setattr(pdf.Drawer, "page_image", boom)
    with pytest.raises(InputError, match=r"a\.pdf.*OddError") as raised:
        page_image(page)
    assert SECRET not in str(raised.value)


DEEP: dict[str, Callable[[], str]] = {
    "documents in one another": lambda: '{"document": ' * 5000 + "{}" + "}" * 5000,
    "lists": lambda: "[" * 100_000,
    "lists of an answer": lambda: '{"Blocks": ' + "[" * 3000 + "]" * 3000 + "}",
    "a number of many digits": lambda: '{"Blocks": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("what", DEEP)
def test_structures_that_exhaust_python_are_typed(what: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(DEEP[what]())
    with pytest.raises(UnsupportedFormatError):
        open_document(tmp_path / "a.json")


def test_values_of_a_document_are_not_told(fixtures: Path) -> None:
    text = (fixtures / "docling.json").read_text()
    text = text.replace('"page_no": 1', f'"page_no": {json.dumps(SECRET)}')
    with pytest.raises(HushdocError) as raised:
        open_document(text.encode(), format="docling")
    assert SECRET in str(raised.value.__cause__)
    assert SECRET not in str(raised.value)
    with pytest.raises(UnsupportedFormatError, match="it lacks 'pages'"):
        open_document(b'{"schema_name": "DoclingDocument"}', format="docling")


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), MemoryError(), SystemExit(3)])
def test_what_says_nothing_about_a_file_passes(raised: BaseException) -> None:
    with pytest.raises(type(raised)), reading_as("a form", "name"):
        raise raised


def test_errors_and_warnings_of_ours_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def warned(*_: Any, **__: Any) -> Any:
        warnings.warn("Page 3 was not read.", ReadingWarning, stacklevel=1)

    monkeypatch.setattr(pdf_text, "covering", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ReadingWarning):
            open_document(pdfs.file([pdfs.shown("Total 1")]))
    with pytest.raises(InputError, match="as a form: a page is odd"), reading_as("a form", "name"):
        raise MalformedError("a page is odd")
