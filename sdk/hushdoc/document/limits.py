"""Limits of documents and readers: what a word and a page are, how much is read, which images."""

from __future__ import annotations

import threading
import unicodedata
from dataclasses import dataclass, fields
from pathlib import Path

from hushdoc.arguments import MalformedError, short_repr
from hushdoc.errors import InputError, LimitExceededError, WordError

MAX_WORD_CHARACTERS = 10_000
"""No word of any document is longer."""

MAX_SIDE = 10_000_000
"""No page of any document is longer (pixels, or the units of the file it is read from)."""

MAX_NAME_CHARACTERS = 4096
"""No name of an image in a document's JSON is longer: to resolve one takes the square of its
length, and no file of Linux has a longer path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingLimits:
    """How much of a file is read; anything larger is refused, never truncated.

    Attributes:
        max_bytes: Size of the file.
        max_pages: Pages of one document.
        max_pixels: Pixels of one page, known from the file's head before any is decoded; pages of
            PDF files are drawn no larger.
        max_words: Words of one document.
        max_word_characters: Characters of one word; MAX_WORD_CHARACTERS at most.
        max_seconds: How long a reader process may take for the file, and to draw a page of it; 60
            where it is None. What reads "here" can't keep it, and refuses it.
        max_memory: Bytes of memory that a reader process may take, on Linux; 4 GiB where it is
            None. What reads "here" refuses it.

    Example:
        >>> ReadingLimits(max_pages=3).max_pages
        3
    """

    max_bytes: int = 128 * 2**20
    max_pages: int = 1000
    max_pixels: int = 80_000_000
    max_words: int = 1_000_000
    max_word_characters: int = MAX_WORD_CHARACTERS
    max_seconds: float | None = None
    max_memory: int | None = None

    def __post_init__(self) -> None:
        """Refuses limits that let nothing through."""
        seconds = self.max_seconds
        if seconds is not None and not (
            type(seconds) in (int, float) and 0 < seconds <= threading.TIMEOUT_MAX
        ):
            raise ValueError(f"max_seconds is {seconds!r}; expected a positive number of seconds.")
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "max_seconds" or (item.name == "max_memory" and value is None):
                continue
            if type(value) is not int or value < 1:
                raise ValueError(f"{item.name} is {value!r}; expected an integer >= 1.")
        if self.max_word_characters > MAX_WORD_CHARACTERS:
            raise ValueError(
                f"max_word_characters is {self.max_word_characters}; no document holds words of "
                f"more than {MAX_WORD_CHARACTERS} characters."
            )


def check_size(width: object, height: object, *, where: str) -> None:
    """Raises InputError unless both sides are positive numbers up to MAX_SIDE."""
    for length in (width, height):
        if not (isinstance(length, int | float) and 0 < length <= MAX_SIDE):
            raise InputError(
                f"A side of {where} is {short_repr(length)} pixels; both must be positive numbers "
                f"and at most {MAX_SIDE}. Give the size of the image the boxes refer to."
            )


def image_name(image: Path | bytes | None, folder: Path | None) -> str | None:
    """Returns what a document's JSON calls a page's image; None outside of the JSON's folder."""
    if not isinstance(image, Path):
        return None
    if folder is None:
        return str(image)
    place, home = image.resolve(), folder.resolve()
    return place.relative_to(home).as_posix() if place.is_relative_to(home) else None


def named_image(name: object, folder: Path | None) -> Path | None:
    """Returns the image file that a document's JSON names, which must be in the JSON's own folder.

    Opening, showing or redacting the document opens that file, and the author of the JSON could
    otherwise have any file of the machine shown (IMAGE_OUTSIDE). Without a folder there is none.
    """
    if name is None or folder is None:
        return None
    if not isinstance(name, str):
        raise MalformedError(f"the name of an image is {type(name).__name__}, not a string")
    if len(name) > MAX_NAME_CHARACTERS:
        raise MalformedError(
            f"the name of an image has {len(name)} characters, more than {MAX_NAME_CHARACTERS}"
        )
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, or a NUL
        inside = False
    if inside:
        return path
    raise InputError(
        f"It names the image {short_repr(name)}, which is not in the folder of the file that names "
        "it; only images there, or in folders below, are opened. Put the image beside that file, "
        "write it with Document.to_dict(folder=...), or pass its content as bytes: then without "
        "images.",
        code="IMAGE_OUTSIDE",
    )


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
    """Returns a text that can be a word; else raises WordError or LimitExceededError."""
    if not isinstance(text, str):
        raise WordError(f"The {where} is {type(text).__name__}, not text. Pass a string.")
    if len(text) > max_characters:
        raise LimitExceededError(
            f"The {where} has {len(text)} characters; a word has {max_characters} at most. Split "
            "the text at whitespace."
        )
    if not text or text.isspace():
        raise WordError(f"The {where} is empty or whitespace. Leave it out, and its box with it.")
    for character in "" if text.isprintable() else text:
        if unicodedata.category(character) in ("Cc", "Cs"):
            half = "\ud800" <= character <= "\udfff"
            raise WordError(
                f"The {where} holds U+{ord(character):04X}, "
                f"{'which is not valid Unicode' if half else 'a control character'}. "
                "Decode the text correctly, or remove the character."
            )
    return text
