"""Opening: a file or its bytes in, a checked Document out, whatever the format."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Page
from hushdoc.document.provenance import (
    FORMATS,
    FileFingerprint,
    ReadingWarning,
    Source,
    pages_of,
)
from hushdoc.errors import (
    EmptyDocumentError,
    InputError,
    LimitExceededError,
    MissingExtraError,
    OCRRequiredError,
)
from hushdoc.reading import formats, images, pdf
from hushdoc.reading import text as texts
from hushdoc.reading.drafting import Draft, limits_from
from hushdoc.reading.ocr import OCRCache, OCREngine, Reader
from hushdoc.system import atomic_files

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
    PIXELS_PER_INCH pixels an inch. Rotated photos and pages are upright. `Document.source` says
    what was read and by which engine.

    Args:
        source: Path of the file, or its content as bytes.
        format: "auto" looks at the content, never at the name; else one of FORMATS.
        ocr: "auto" reads pages without text, scans and unreadable text layers with RapidOCR, or
            with Tesseract where that alone is installed; "rapidocr", "tesseract" or an engine of
            the application's own reads every page; "none" reads no image.
        id: A name for messages and results; the file's name without its ending by default.
        password: Opens an encrypted PDF file.
        limits: How much is read.
        cache: What keeps the text that was read from images; one in memory by default.

    Raises:
        UnsupportedFormatError: The file is damaged, of another format, or in an unknown encoding.
        LimitExceededError: It is larger than the limits allow.
        EncryptedDocumentError: It needs a password, or another one.
        OCRRequiredError: It is an image, and `ocr` is "none".
        EmptyDocumentError: It holds no word.
        InputError: It can't be read, or a word or box in it can't be used.
        OCRError: The engine failed.
        MissingExtraError: A package that this format needs is not installed.
    """
    limits = limits_from(limits)
    for value, what in ((id, "The document's id"), (password, "The password")):
        arguments.optional(value, str, what=what, advice="Pass a string, or leave it out.")
    reader = Reader(ocr, cache)
    name, content, path = _content(source, limits)
    id = id if id is not None else Path(name).stem if path is not None else name
    if not content:
        raise EmptyDocumentError(f"The file '{name}' is empty: it has 0 bytes. Check its origin.")
    arguments.choice(format, FORMATS, what="format")
    with arguments.reading_as("a file of any known format", name):
        found = formats.recognised(content, format=format, id=name)
    with arguments.reading_as(f"a sound file of the format {found.format}", name):
        if found.format == "pdf":
            return _from_pdf(content, path, id, password, limits, reader)
        if found.format == "image":
            return _from_image(content, path, id, limits, reader)
        if found.format == "text":
            return texts.from_text(found.text, id=id)
        if found.format == "document":
            return _from_own(found.data, path, limits)
        return formats.read_adapted(found, id=id, limits=limits)


def page_image(
    page: Page, *, password: str | None = None, limits: ReadingLimits | None = None
) -> Image.Image | None:
    """Returns a page's image as it is looked at, page.width x page.height pixels, in RGB.

    It is drawn anew from the page's file at each call, and nothing is kept.

    Args:
        page: The page; None comes back where it names no file.
        password: Opens an encrypted PDF file.
        limits: How much is read; by default what the document was opened with.

    Raises:
        InputError: The file is not there, damaged, too large, or no longer the one whose words
            were read (FILE_CHANGED).
        MissingExtraError: A package that its format needs is not installed.
    """
    advice = "Pass one of a document's `pages`."
    arguments.instance(page, Page, what="The page", advice=advice)
    if page.image is None:
        return None
    arguments.optional(password, str, what="The password", advice="Pass a string, or leave it out.")
    limits = limits_from(page.limits if limits is None else limits)
    size = (page.width, page.height)
    name, content, _ = _content(page.image, limits)
    if page.fingerprint is not None:
        _require_same(page.fingerprint, content)
    if page.width * page.height > limits.max_pixels:
        raise LimitExceededError(
            f"A page of '{name}' is {page.width} x {page.height} pixels; at most "
            f"{limits.max_pixels} in all are drawn. Correct its size, or raise the limit."
        )
    with arguments.reading_as("a file of pages that can be drawn", name):
        if pdf.is_pdf(content):
            return pdf.page_image(content, page.frame, size=size, id=name, password=password)
        image = images.frame_image(content, page.frame, id=name, limits=limits)
        return image if image.size == size else image.resize(size)


def _content(
    source: str | os.PathLike[str] | bytes, limits: ReadingLimits
) -> tuple[str, bytes, Path | None]:
    """Returns a name for messages, the content, and the path if there is one."""
    if isinstance(source, bytes):
        _require_fit(source, "document", limits)
        return "document", source, None
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"The file is {arguments.described(source)}; expected its path (str or pathlib.Path), "
            "or its content as bytes. Open several files one by one."
        )
    path = arguments.path(source, what="The file")
    return path.name, content_of(path, limits), path


def content_of(path: Path, limits: ReadingLimits) -> bytes:
    """Returns the content of a file; InputError, or LimitExceededError past the limits."""
    try:
        content = atomic_files.read_file(path, max_bytes=limits.max_bytes)
    except OSError as error:
        raise InputError(
            f"It can't be read: {error.strerror or error}. Check the path '{path}'."
        ) from error
    _require_fit(content, path.name, limits)
    return content


def _require_fit(content: bytes, name: str, limits: ReadingLimits) -> None:
    if len(content) > limits.max_bytes:
        raise LimitExceededError(
            f"'{name}' is larger than {limits.max_bytes} bytes. Split it into smaller documents, "
            "or raise ReadingLimits.max_bytes."
        )


def fingerprint(content: bytes, path: Path | None) -> FileFingerprint | None:
    """Returns the fingerprint of a file's content; None for bytes without a file.

    A digest and not the modification time: boxes belong to the very pixels that were read, and
    copies and a new date change nothing. It takes little time beside decoding the image.
    """
    return None if path is None else FileFingerprint(path=path, digest=_digest(content))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _require_same(seen: FileFingerprint, content: bytes) -> None:
    if seen.digest != _digest(content):
        raise InputError(
            f"The file '{seen.path}' is no longer the one that was opened, and words are known "
            "only of that one. Open the document again.",
            code="FILE_CHANGED",
        )


def _from_pdf(
    content: bytes,
    path: Path | None,
    id: str,
    password: str | None,
    limits: ReadingLimits,
    reader: Reader,
) -> Document:
    draft = Draft(id=id, reader=pdf.READER, limits=limits)
    # Pages are drawn later, and the password need not be kept until then.
    file = pdf.unlocked(content, id=id, password=password) if password is not None else None
    seen = fingerprint(content, path) if file is None else None
    read: list[int] = []
    unread: list[int] = []
    overlaid: list[int] = []
    missing: MissingExtraError | None = None
    for number, page in enumerate(pdf.text_pages(content, id=id, limits=limits, password=password)):
        size = (page.width, page.height)
        draft.page(*size, image=file or path or content, frame=number, fingerprint=seen)
        if reader.every_page or (page.needs_ocr and not reader.forbidden and missing is None):
            try:
                image = pdf.page_image(content, number, size=size, id=id, password=password)
                words = reader.read(image)
            except MissingExtraError as error:
                if reader.every_page:
                    raise
                missing = error  # no more than a warning where other pages have words
            else:
                draft.add(words)
                read.append(number)
                continue
        if page.needs_ocr:
            unread.append(number)
        elif page.overlaid:
            overlaid.append(number)
        for word, box in page.words:
            draft.word(word, (box.x0, box.y0, box.x1, box.y1))
    if missing is not None and not draft.has_words:
        raise missing
    document = _finished(draft, reader, read=read, unread=sorted([*unread, *overlaid]))
    if not reader.forbidden:
        _warn_of_unread(id, unread, overlaid, missing)
    return document


def _from_image(
    content: bytes, path: Path | None, id: str, limits: ReadingLimits, reader: Reader
) -> Document:
    draft = Draft(id=id, reader=images.READER, limits=limits)
    seen = fingerprint(content, path)
    read: list[int] = []
    unread: list[int] = []
    for number, (frame, image) in enumerate(images.frames(content, id=id, limits=limits)):
        file = path or content
        draft.page(image.width, image.height, image=file, frame=frame, fingerprint=seen)
        if reader.forbidden:
            unread.append(number)
        else:
            draft.add(reader.read(image))
            read.append(number)
    return _finished(draft, reader, read=read, unread=unread)


def _finished(draft: Draft, reader: Reader, *, read: list[int], unread: list[int]) -> Document:
    """Returns the document, or says that its words are in images that may not be read."""
    if reader.forbidden and unread and not draft.has_words:
        raise OCRRequiredError(
            f"'{draft.id}' holds images and no text, and ocr is \"none\". Allow OCR with "
            'ocr="auto", or pass what an OCR program wrote about it.'
        )
    source = Source(
        reader=draft.reader, ocr=reader.label, ocr_pages=tuple(read), unread_pages=tuple(unread)
    )
    return draft.document(source)


def _warn_of_unread(
    id: str, unread: list[int], overlaid: list[int], missing: MissingExtraError | None
) -> None:
    """Warns that a PDF file's pages show what is not among the document's words."""
    notes = []
    if unread:
        notes.append(
            f"{pages_of(unread)} of '{id}' can be read by OCR alone, and the document goes without "
            f"their words. {missing}"
        )
    if overlaid:
        notes.append(
            f"Images cover most of {pages_of(overlaid)} of '{id}', and the text beside or on "
            'them alone was read. Where they are scans, pass ocr="rapidocr" or ocr="tesseract".'
        )
    for text in notes:
        warnings.warn(text[0].upper() + text[1:], ReadingWarning, stacklevel=4)


def _from_own(data: Any, path: Path | None, limits: ReadingLimits) -> Document:
    """Returns what `Document.to_dict` wrote; images it names are beside its file.

    Bytes have no file: their sender may name no image of this machine.
    """
    if isinstance(data, Mapping) and isinstance(data.get("document"), Mapping):
        data = data["document"]
    if not isinstance(data, Mapping):
        raise InputError(
            f"It holds {type(data).__name__}, expected an object written from Document.to_dict()."
        )
    document = Document.from_dict(data, folder=None if path is None else path.parent)
    pages = tuple(
        page if page.image is None else replace(page, limits=limits) for page in document.pages
    )
    return replace(document, pages=pages)
