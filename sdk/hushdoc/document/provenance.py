"""How a document was read: its format and OCR engine, and the fingerprint of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.arguments import MalformedError, is_unicode

FORMATS = (
    "auto",
    "azure-read",
    "docling",
    "doctr",
    "document",
    "document-ai",
    "hocr",
    "image",
    "pdf",
    "rapidocr",
    "tesseract-tsv",
    "text",
    "textract",
)
"""Formats that `hushdoc.open_document` reads; "document" is what `Document.to_dict` wrote."""


ENGINES = ("auto", "none", "rapidocr", "tesseract")
"""Names of OCR engines that `hushdoc.open_document` takes."""

READERS = ("here", "process")
"""Where `hushdoc.open_document` reads: in the program's own process, or in one of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFingerprint:
    """The content of a page's file when its words were read, as a digest of `hushdoc.reading`."""

    path: Path
    digest: bytes


class ReadingWarning(UserWarning):
    """Warns that a document was read without some of what its pages show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """How a document was read.

    Attributes:
        reader: Name of the format that was read, such as "pdf", "image" or "hocr".
        ocr: Name and version of what read the text from images; None where nothing did.
        ocr_pages: The pages, from 0, whose words come from it; the others' come from the file.
        unread_pages: The pages, from 0, that show more than their words: images, or characters
            that only OCR could read, and that were not read.

    Example:
        >>> str(Source(reader="pdf", ocr="tesseract 5.3.0", ocr_pages=(1,)))
        'pdf, page 1 by tesseract 5.3.0'
        >>> str(Source(reader="pdf", unread_pages=(0, 2)))
        'pdf, images of pages 0, 2 not read'
    """

    reader: str
    ocr: str | None = None
    ocr_pages: tuple[int, ...] = ()
    unread_pages: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Returns one line for people."""
        parts = [self.reader]
        if self.ocr is not None:
            parts.append(f"{pages_of(self.ocr_pages)} by {self.ocr}")
        if self.unread_pages:
            parts.append(f"images of {pages_of(self.unread_pages)} not read")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        data = {"reader": self.reader, "ocr": self.ocr, "ocr_pages": list(self.ocr_pages)}
        return {**data, "unread_pages": list(self.unread_pages)} if self.unread_pages else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Source:
        """Returns what `to_dict` wrote; else raises KeyError or MalformedError."""
        reader, ocr, pages = data["reader"], data["ocr"], data["ocr_pages"]
        unread = data.get("unread_pages", [])
        names = [reader] if ocr is None else [reader, ocr]
        if not all(type(name) is str and is_unicode(name) for name in names):
            raise MalformedError("reader and ocr of a source must be names")
        for numbers in (pages, unread):
            if type(numbers) is not list or any(type(page) is not int for page in numbers):
                raise MalformedError("ocr_pages and unread_pages of a source must be page numbers")
        return cls(reader=reader, ocr=ocr, ocr_pages=tuple(pages), unread_pages=tuple(unread))


def pages_of(numbers: Sequence[int]) -> str:
    """Returns some pages for people: the first five of them."""
    shown = ", ".join(map(str, numbers[:5])) + ", ..." * (len(numbers) > 5)
    return f"page{'s' * (len(numbers) != 1)} {shown}"
