"""docTR: what `result.export()` returns or `json.dump` of it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hushdoc.document import Document
from hushdoc.reading.drafting import Corners, Draft, around, reading_as
from hushdoc.reading_terms import ReadingLimits

READER = "doctr"


def from_doctr(
    data: Mapping[str, Any], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of an export; words of one line share a segment.

    Args:
        data: The export: pages, blocks, lines, words, with geometry in shares of the page.
        id: A name for messages and results.
        limits: How much is read.

    Raises:
        UnsupportedFormatError: It is no export of docTR.
        InputError: A box or a word can't be used; the message names it.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("an export of docTR", id):
        for page in data["pages"]:
            height, width = page["dimensions"]
            if type(height) is not int or type(width) is not int:
                raise TypeError("the dimensions of a page are no integers")
            draft.page(1, 1, pixels=_positive(width, height))
            lines = (line for block in page["blocks"] for line in block["lines"])
            for segment, line in enumerate(lines):
                for word in line["words"]:
                    draft.word(word.get("value"), _corners(word), segment=segment)
    return draft.document()


def _positive(width: int, height: int) -> tuple[int, int]:
    if min(width, height) < 1:
        raise ValueError(f"a page is {width} x {height} pixels")
    return width, height


def _corners(word: Mapping[str, Any]) -> Corners | None:
    """Returns the box around two corners, or around the four of a turned word."""
    geometry = word.get("geometry")
    return around(geometry) if geometry else None
