"""What readers and documents agree on: what a word is, how much is read, and how it was read."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from hushdoc.errors import LimitExceededError, WordError

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
"""What is read, as `Document.open` calls it; "document" is what `Document.to_dict` wrote."""

ENGINES = ("auto", "none", "rapidocr", "tesseract")
"""What reads the text from pictures."""

MAX_WORD_CHARACTERS = 10_000
"""No word of any document is longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingLimits:
    """How much of somebody else's file is read; anything larger is refused, never cut.

    Attributes:
        max_bytes: Size of the file.
        max_pages: Pages of one document.
        max_pixels: Pixels of one page, told from the file's head before any is decoded; pages of
            PDF files are drawn no larger.
        max_words: Words of one document.
        max_word_characters: Characters of one word; MAX_WORD_CHARACTERS at most.

    Example:
        >>> ReadingLimits(max_pages=3).max_pages
        3
    """

    max_bytes: int = 128 * 2**20
    max_pages: int = 1000
    max_pixels: int = 80_000_000
    max_words: int = 1_000_000
    max_word_characters: int = MAX_WORD_CHARACTERS

    def __post_init__(self) -> None:
        """Refuses limits that let nothing through."""
        for found in fields(self):
            value = getattr(self, found.name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{found.name} is {value!r}; expected an integer >= 1.")
        if self.max_word_characters > MAX_WORD_CHARACTERS:
            raise ValueError(
                f"max_word_characters is {self.max_word_characters}; no document holds words of "
                f"more than {MAX_WORD_CHARACTERS} characters."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """How a document was read.

    Attributes:
        reader: Name of the format that was read, such as "pdf", "image" or "hocr".
        ocr: Name and version of what read the text from pictures; None where nothing did.
        ocr_pages: The pages, from 0, whose words come from it; the others' come from the file.

    Example:
        >>> str(Source(reader="pdf", ocr="tesseract 5.3.0", ocr_pages=(1,)))
        'pdf, page 1 by tesseract 5.3.0'
    """

    reader: str
    ocr: str | None = None
    ocr_pages: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Returns one line for people."""
        if self.ocr is None:
            return self.reader
        shown = ", ".join(map(str, self.ocr_pages[:5])) + ", ..." * (len(self.ocr_pages) > 5)
        return f"{self.reader}, page{'s' * (len(self.ocr_pages) != 1)} {shown} by {self.ocr}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"reader": self.reader, "ocr": self.ocr, "ocr_pages": list(self.ocr_pages)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Source:
        """Returns what `to_dict` wrote.

        Raises:
            KeyError: A key is missing.
            TypeError: A value is of another type.
        """
        reader, ocr, pages = data["reader"], data["ocr"], data["ocr_pages"]
        if type(reader) is not str or not (ocr is None or type(ocr) is str):
            raise TypeError("reader and ocr of a source must be names")
        if type(pages) is not list or any(type(page) is not int for page in pages):
            raise TypeError("ocr_pages of a source must be numbers of pages")
        return cls(reader=reader, ocr=ocr, ocr_pages=tuple(pages))


def is_plain(text: object) -> bool:
    """Returns whether a text surely is a word; `check_word` decides of all others."""
    return (
        isinstance(text, str)
        and len(text) <= MAX_WORD_CHARACTERS
        and text.isprintable()
        and not text.isspace()
        and text != ""
    )


def check_word(text: object, *, where: str, max_characters: int = MAX_WORD_CHARACTERS) -> str:
    """Returns a text that can be a word.

    Args:
        text: The text.
        where: Which word it is, for the message.
        max_characters: Longest word.

    Raises:
        WordError: It is empty, no text, or holds control characters or halves of characters.
        LimitExceededError: It is too long.
    """
    if not isinstance(text, str):
        raise WordError(f"The {where} is {type(text).__name__}, not text. Pass a string.")
    if len(text) > max_characters:
        raise LimitExceededError(
            f"The {where} has {len(text)} characters; a word has {max_characters} at most. Split "
            "the text at its blanks."
        )
    if not text or text.isspace():
        raise WordError(f"The {where} is empty or blank. Leave it out, and its box with it.")
    for letter in "" if text.isprintable() else text:
        if unicodedata.category(letter) in ("Cc", "Cs"):
            half = "\ud800" <= letter <= "\udfff"
            raise WordError(
                f"The {where} holds U+{ord(letter):04X}, "
                f"{'which is not valid Unicode' if half else 'a character that no page shows'}. "
                "Mend the text where it was decoded, or remove the character."
            )
    return text


def shown(text: object) -> str:
    """Returns the start of a text for a message, so that it can't steer a terminal."""
    return ascii(text[:40]) if isinstance(text, str) else type(text).__name__
