"""One door to all readers: a file or its bytes in, a checked Document out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc import files
from hushdoc.document import Document, Page, Word
from hushdoc.errors import (
    EmptyDocumentError,
    InputError,
    LimitExceededError,
    OCRRequiredError,
)
from hushdoc.reading import formats, images, pdf
from hushdoc.reading import text as texts
from hushdoc.reading.drafting import Draft
from hushdoc.reading.ocr import OCRCache, OCREngine, Reader
from hushdoc.reading_terms import ReadingLimits, Source

if TYPE_CHECKING:
    from PIL import Image


def open_document(
    source: str | os.PathLike[str] | bytes,
    *,
    format: str = "auto",
    ocr: str | OCREngine = "auto",
    id: str | None = None,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    cache: OCRCache | None = None,
) -> Document:
    """Returns the document in a file: PDF, image, text, or another program's output.

    The words of a PDF file come from its text layer, in the file's order; its pages have
    PIXELS_PER_INCH pixels an inch. Turned photos and pages are upright. `Document.source` tells
    what was read and by which engine.

    Args:
        source: Path of the file, or its content as bytes.
        format: "auto" looks at the content, never at the name; else one of FORMATS.
        ocr: "auto" reads pages without text, scans and unreadable text layers with RapidOCR, or
            with Tesseract where that alone is installed; "rapidocr", "tesseract" or an engine of
            the application's own reads every page; "none" reads no picture.
        id: A name for messages and results; the file's name without its ending by default.
        password: Opens an encrypted PDF file.
        limits: How much is read.
        cache: What keeps the text that was read from pictures; one in memory by default.

    Raises:
        UnsupportedFormatError: The file is damaged, of another format, or in an unknown encoding.
        LimitExceededError: It is larger than the limits allow.
        EncryptedDocumentError: It needs a password, or another one.
        OCRRequiredError: It is a picture, and `ocr` is "none".
        EmptyDocumentError: It holds no word.
        InputError: It can't be read, or a word or box in it can't be used.
        OCRError: The engine failed.
        MissingExtraError: A package that this format needs is not installed.
    """
    limits = limits or ReadingLimits()
    reader = Reader(ocr, cache)
    name, content, path = _content(source, limits)
    id = id if id is not None else Path(name).stem if path is not None else name
    if not content:
        raise EmptyDocumentError(f"The file '{name}' is empty: it has 0 bytes. Check its origin.")
    found = formats.recognised(content, format=format, id=name)
    if found.format == "pdf":
        return _from_pdf(content, path, id, password, limits, reader)
    if found.format == "image":
        return _from_image(content, path, id, limits, reader)
    if found.format == "text":
        return texts.from_text(found.text, id=id)
    if found.format == "document":
        return _from_own(found.data, path)
    return formats.read_adapted(found, id=id, limits=limits)


def page_image(
    page: Page, *, password: str | None = None, limits: ReadingLimits | None = None
) -> Image.Image | None:
    """Returns a page's picture as it is looked at, page.width x page.height pixels, in RGB.

    It is drawn anew from the page's file at each call, and nothing is kept.

    Args:
        page: The page; None comes back where it names no file.
        password: Opens an encrypted PDF file.
        limits: How much is read.

    Raises:
        InputError: The file is not there, damaged, or too large.
        MissingExtraError: A package that its format needs is not installed.
    """
    if page.image is None:
        return None
    limits = limits or ReadingLimits()
    size = (page.width, page.height)
    name, content, _ = _content(page.image, limits)
    if page.width * page.height > limits.max_pixels:
        raise LimitExceededError(
            f"A page of '{name}' is {page.width} x {page.height} pixels; at most "
            f"{limits.max_pixels} in all are drawn. Mend its size, or raise the limit."
        )
    if pdf.is_pdf(content):
        return pdf.page_picture(content, page.frame, size=size, id=name, password=password)
    picture = images.picture(content, page.frame, id=name, limits=limits)
    return picture if picture.size == size else picture.resize(size)


def _content(
    source: str | os.PathLike[str] | bytes, limits: ReadingLimits
) -> tuple[str, bytes, Path | None]:
    """Returns a name for messages, the content, and the path if there is one."""
    if isinstance(source, bytes):
        name, content, path = "document", source, None
    else:
        path = Path(source)
        name = path.name
        try:
            content = files.read_file(path, max_bytes=limits.max_bytes)
        except OSError as error:
            raise InputError(
                f"It can't be read: {error.strerror or error}. Check the path '{path}'."
            ) from error
    if len(content) > limits.max_bytes:
        raise LimitExceededError(
            f"'{name}' is larger than {limits.max_bytes} bytes. Split it into smaller documents, "
            "or raise ReadingLimits.max_bytes."
        )
    return name, content, path


def _from_pdf(
    content: bytes,
    path: Path | None,
    id: str,
    password: str | None,
    limits: ReadingLimits,
    reader: Reader,
) -> Document:
    draft = Draft(id=id, reader=pdf.READER, limits=limits)
    # Pages are drawn later, and nobody should have to keep the password until then.
    file = pdf.unlocked(content, id=id, password=password) if password is not None else None
    read: list[int] = []
    pictured = False
    for number, page in enumerate(pdf.text_pages(content, id=id, limits=limits, password=password)):
        size = (page.width, page.height)
        draft.page(*size, image=file or path or content, frame=number)
        if reader.every_page or (page.needs_ocr and not reader.forbidden):
            picture = pdf.page_picture(content, number, size=size, id=id, password=password)
            _add(draft, reader.read(picture))
            read.append(number)
            continue
        pictured = pictured or page.needs_ocr
        for word, box in page.words:
            draft.word(word, (box.x0, box.y0, box.x1, box.y1))
    return _finished(draft, read, reader, pictured)


def _from_image(
    content: bytes, path: Path | None, id: str, limits: ReadingLimits, reader: Reader
) -> Document:
    draft = Draft(id=id, reader=images.READER, limits=limits)
    read: list[int] = []
    for number, (frame, picture) in enumerate(images.pictures(content, id=id, limits=limits)):
        draft.page(picture.width, picture.height, image=path or content, frame=frame)
        if not reader.forbidden:
            _add(draft, reader.read(picture))
            read.append(number)
    return _finished(draft, read, reader, pictured=True)


def _add(draft: Draft, words: tuple[Word, ...]) -> None:
    for word in words:
        box = word.box
        draft.word(word.text, (box.x0, box.y0, box.x1, box.y1), segment=word.segment)


def _finished(draft: Draft, read: list[int], reader: Reader, pictured: bool) -> Document:
    """Returns the document, or says that its words are in pictures that may not be read."""
    if reader.forbidden and pictured and not draft.has_words:
        raise OCRRequiredError(
            f"'{draft.id}' holds pictures and no text, and ocr is \"none\". Allow OCR with "
            'ocr="auto", or pass what an OCR program wrote about it.'
        )
    source = Source(reader=draft.reader, ocr=reader.label, ocr_pages=tuple(read))
    return draft.document(source)


def _from_own(data: Any, path: Path | None) -> Document:
    """Returns what `Document.to_dict` wrote; images it names stand beside its file."""
    if isinstance(data, Mapping) and isinstance(data.get("document"), Mapping):
        data = data["document"]
    if not isinstance(data, Mapping):
        raise InputError(
            f"It holds {type(data).__name__}, expected an object written from Document.to_dict()."
        )
    document = Document.from_dict(data)
    if path is None:
        return document
    pages = tuple(
        replace(page, image=path.parent / page.image) if isinstance(page.image, Path) else page
        for page in document.pages
    )
    return replace(document, pages=pages)
