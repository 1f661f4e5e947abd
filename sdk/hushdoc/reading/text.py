"""Plain text: bytes to characters, or an error; never a guess."""

from __future__ import annotations

import codecs
import re

from hushdoc.document.document import Document
from hushdoc.document.provenance import Source
from hushdoc.errors import UnsupportedFormatError

READER = "text"

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # The mark of UTF-32 in little-endian order starts with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Characters that no text file holds; tabs, line ends, form feeds and escapes are let through."""


def encoding_of(content: bytes) -> tuple[str, int]:
    """Returns what a byte order mark says, UTF-8 where there is none, and the mark's length."""
    return next(
        ((name, len(mark)) for mark, name in _MARKS if content.startswith(mark)), ("utf-8", 0)
    )


def decoded(content: bytes, *, id: str) -> str:
    """Returns the characters of a text file: UTF-8, or UTF-16 or UTF-32 with a byte order mark."""
    encoding, skipped = encoding_of(content)
    try:
        text = content[skipped:].decode(encoding)
    except UnicodeDecodeError as error:
        raise UnsupportedFormatError(
            f"'{id}' is not {encoding.upper()} at byte {skipped + error.start}. Expected a text in "
            "UTF-8, or in UTF-16 with a byte order mark; an encoding is never guessed. Convert it: "
            "iconv -f ITS-ENCODING -t UTF-8."
        ) from error
    binary = _BINARY.search(text)
    if binary is not None:
        raise UnsupportedFormatError(
            f"'{id}' holds U+{ord(binary[0]):04X} at character {binary.start()}, so it is no text, "
            "nor any other format that is read. Convert it to PDF, an image or text."
        )
    return text


def from_text(text: str, *, id: str) -> Document:
    """Returns the document of a plain text; EmptyDocumentError for whitespace alone."""
    document = Document(id=id, pages=(), text=text, source=Source(reader=READER))
    document.check_text()
    return document
