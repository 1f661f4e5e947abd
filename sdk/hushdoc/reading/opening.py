"""Opening: a file or its bytes in, a checked Document out, whatever the format."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import FORMATS, ReadingWarning, Source, pages_of
from hushdoc.errors import (
    EmptyDocumentError,
    InputError,
    MissingExtraError,
    OCRRequiredError,
    UnsupportedFormatError,
)
from hushdoc.reading import files, formats, images, isolated, pdf, reader_process
from hushdoc.reading import text as texts
from hushdoc.reading.drafting import Draft, limits_from, too_many_pages, too_many_words
from hushdoc.reading.files import File
from hushdoc.reading.ocr import OCRCache, OCREngine, Reader


def open_document(
    source: str | os.PathLike[str] | bytes,
    *,
    format: str = "auto",
    ocr: str | OCREngine = "auto",
    id: str | None = None,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    cache: OCRCache | None = None,
    reader: str = "here",
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
        cache: What keeps the text that was read from images; by default one in memory for all. Give
            each of several clients' requests one of its own, or they can tell what others sent.
        reader: "here" reads in this process; "process" in one that is used for nothing else, so
            that a hostile file can neither stop nor crash this one: `limits` name its time (60
            seconds by default) and memory (4 GiB), and its pages are drawn there as well. The OCR
            engine runs here, and its time is not counted.

    Raises:
        UnsupportedFormatError: The file is damaged, of another format, or in an unknown encoding;
            or the process that read it ended (READER_CRASHED).
        LimitExceededError: It is larger than the limits allow, or takes longer (READER_TIMEOUT).
        EncryptedDocumentError: It needs a password, or another one.
        OCRRequiredError: It is an image, and `ocr` is "none".
        EmptyDocumentError: It holds no word.
        InputError: It can't be read, or a word or box in it can't be used.
        OCRError: The engine failed.
        MissingExtraError: A package that this format needs is not installed.
        HushdocError: No reader process can be started (READER_NOT_STARTED).
    """
    document, notes = noted_document(
        source,
        format=format,
        ocr=ocr,
        id=id,
        password=password,
        limits=limits,
        cache=cache,
        reader=reader,
    )
    for note in notes:
        warnings.warn(note, ReadingWarning, stacklevel=2)
    return document


def noted_document(
    source: str | os.PathLike[str] | bytes,
    *,
    format: str = "auto",
    ocr: str | OCREngine = "auto",
    id: str | None = None,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    cache: OCRCache | None = None,
    reader: str = "here",
) -> tuple[Document, tuple[str, ...]]:
    """Returns what `open_document` does, and what it would warn of."""
    limits = limits_from(limits)
    place = reader_process.required(reader, limits)
    for value, what in ((id, "The document's id"), (password, "The password")):
        arguments.optional(value, str, what=what, advice="Pass a string, or leave it out.")
    arguments.choice(format, FORMATS, what="format")
    engine = Reader(ocr, cache)
    file = files.given(source, limits)
    if id is None:
        id = file.id
    if not file.content:
        raise EmptyDocumentError(
            f"The file '{file.name}' is empty: it has 0 bytes. Check its origin."
        )
    return (isolated.read if place == "process" else read)(
        file, format=format, id=id, password=password, limits=limits, reader=engine
    )


def read(
    file: File, *, format: str, id: str, password: str | None, limits: ReadingLimits, reader: Reader
) -> tuple[Document, tuple[str, ...]]:
    """Returns the document in a file as `open_document` does, and what to warn of."""
    name, content, path = file.name, file.content, file.path
    with arguments.reading_as("a file of any known format", name):
        found = formats.recognised(content, format=format, id=name)
    with arguments.reading_as(f"a sound file of the format {found.format}", name):
        if found.format == "pdf":
            return _from_pdf(content, path, id, password, limits, reader)
        if found.format == "image":
            return _from_image(content, path, id, limits, reader)
        if found.format == "text":
            return texts.from_text(found.text, id=id), ()
        if found.format == "document":
            return _from_own(found.data, path, limits), ()
        return formats.read_adapted(found, id=id, limits=limits), ()


def _from_pdf(
    content: bytes,
    path: Path | None,
    id: str,
    password: str | None,
    limits: ReadingLimits,
    reader: Reader,
) -> tuple[Document, tuple[str, ...]]:
    draft = Draft(id=id, reader=pdf.READER, limits=limits)
    # Pages are drawn later, and the password need not be kept until then.
    file = pdf.unlocked(content, id=id, password=password) if password is not None else None
    seen = files.fingerprint(content, path) if file is None else None
    read: list[int] = []
    unread: list[int] = []
    overlaid: list[int] = []
    slender: list[int] = []
    missing: MissingExtraError | None = None
    draw: pdf.Draw | None = None
    with ExitStack() as stack:
        for number, page in enumerate(
            pdf.text_pages(content, id=id, limits=limits, password=password)
        ):
            size = (page.width, page.height)
            draft.page(*size, image=file or path or content, frame=number, fingerprint=seen)
            wanted = reader.every_page or (page.needs_ocr and not reader.forbidden)
            too_slender = wanted and images.too_slender(size)
            if wanted and not too_slender and (reader.every_page or missing is None):
                try:
                    if draw is None:
                        opened = pdf.drawing(content, id=id, password=password)
                        draw = stack.enter_context(opened)
                    words = reader.read(draw(number, size))
                except MissingExtraError as error:
                    if reader.every_page:
                        raise
                    missing = error  # no more than a warning where other pages have words
                else:
                    draft.add(words)
                    read.append(number)
                    continue
            if too_slender:
                slender.append(number)
            elif page.needs_ocr:
                unread.append(number)
            elif page.overlaid:
                overlaid.append(number)
            for word, box in page.words:
                draft.word(word, (box.x0, box.y0, box.x1, box.y1))
    if missing is not None and not draft.has_words:
        raise missing
    notes = () if reader.forbidden else _unread(id, unread, overlaid, slender, missing)
    if slender and not draft.has_words:
        raise UnsupportedFormatError(" ".join(notes))
    left = sorted([*unread, *overlaid, *slender])
    return _finished(draft, reader, read=read, unread=left), notes


def _from_image(
    content: bytes, path: Path | None, id: str, limits: ReadingLimits, reader: Reader
) -> tuple[Document, tuple[str, ...]]:
    draft = Draft(id=id, reader=images.READER, limits=limits)
    seen = files.fingerprint(content, path)
    read: list[int] = []
    unread: list[int] = []
    notes: list[str] = []
    for number, (frame, image) in enumerate(images.frames(content, id=id, limits=limits)):
        file = path or content
        draft.page(image.width, image.height, image=file, frame=frame, fingerprint=seen)
        if not reader.forbidden and images.too_slender(image.size):
            notes.append(
                f"Page {number} of '{id}' is {image.width} x {image.height} pixels, and pages more "
                f"than {images.MAX_SLENDER} times as long as wide are not read. Cut it into pages."
            )
        if reader.forbidden or images.too_slender(image.size):
            unread.append(number)
        else:
            draft.add(reader.read(image))
            read.append(number)
    if notes and not draft.has_words:
        raise UnsupportedFormatError(" ".join(notes))
    return _finished(draft, reader, read=read, unread=unread), tuple(notes)


def _finished(draft: Draft, reader: Reader, *, read: list[int], unread: list[int]) -> Document:
    """Returns the document, or says that images may not be read or hold no word."""
    if reader.forbidden and unread and not draft.has_words:
        raise OCRRequiredError(
            f"'{draft.id}' holds images and no text, and ocr is \"none\". Allow OCR with "
            'ocr="auto", or pass what an OCR program wrote about it.'
        )
    if read and not draft.has_words:
        raise EmptyDocumentError(
            f"OCR by {reader.label} found no word on {pages_of(read)} of '{draft.id}'. Check that "
            "there is text, upright, large enough and in a language that the engine reads, or "
            "leave this document out."
        )
    source = Source(
        reader=draft.reader, ocr=reader.label, ocr_pages=tuple(read), unread_pages=tuple(unread)
    )
    return draft.document(source)


def _unread(
    id: str,
    unread: list[int],
    overlaid: list[int],
    slender: list[int],
    missing: MissingExtraError | None,
) -> tuple[str, ...]:
    """Returns that a PDF file's pages show what is not among the document's words."""
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
    if slender:
        notes.append(
            f"{pages_of(slender)} of '{id}' can't be read by OCR: each is more than "
            f"{images.MAX_SLENDER} times as long as wide. Cut them into pages."
        )
    return tuple(note[0].upper() + note[1:] for note in notes)


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
    pages = data.get("pages")
    if isinstance(pages, list) and len(pages) > limits.max_pages:
        raise too_many_pages(arguments.printable(data.get("id"), 200), len(pages), limits)
    document = Document.from_dict(data, folder=None if path is None else path.parent)
    if sum(len(page.words) for page in document.pages) > limits.max_words:
        raise too_many_words(document.id, limits)
    pages = tuple(
        page if page.image is None else replace(page, limits=limits) for page in document.pages
    )
    return replace(document, pages=pages)
