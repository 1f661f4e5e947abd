"""Microsoft Read: Azure Document Intelligence from 2022-08-31 on, and Azure Vision Read 3.x."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from hushdoc.document import Document
from hushdoc.reading.drafting import PIXELS_PER_INCH, Corners, Draft, around, reading_as, side
from hushdoc.reading_terms import ReadingLimits

READER = "azure-read"


def from_azure_read(
    data: Mapping[str, Any], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of an `analyzeResult`; words of one line share a segment.

    Pages of PDF files are measured in inches; they get PIXELS_PER_INCH pixels an inch.

    Args:
        data: The whole answer, or its `analyzeResult`.
        id: A name for messages and results.
        limits: How much is read.

    Raises:
        UnsupportedFormatError: It is not such an answer.
        InputError: A box or a word can't be used; the message names it.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("an answer of Azure Read", id):
        result = data.get("analyzeResult", data)
        if "readResults" in result:
            for page in result["readResults"]:
                _begin(draft, page)
                for segment, line in enumerate(page["lines"]):
                    for word in line["words"]:
                        draft.word(word.get("text"), _corners(word), segment=segment)
        else:
            for page in result["pages"]:
                _begin(draft, page)
                _add_words(draft, page)
    return draft.document()


def _begin(draft: Draft, page: Mapping[str, Any]) -> None:
    width, height = page["width"], page["height"]
    pixels = None
    if page.get("unit", "pixel") == "inch":
        where = f"a page of '{draft.id}' ({READER})"
        across, down = (side(value, of=where) * PIXELS_PER_INCH for value in (width, height))
        pixels = (max(1, round(across)), max(1, round(down)))
    draft.page(width, height, pixels=pixels)


def _add_words(draft: Draft, page: Mapping[str, Any]) -> None:
    spans = sorted(
        (_offset(span), _offset(span) + int(span["length"]), segment)
        for segment, line in enumerate(page.get("lines") or ())
        for span in line["spans"]
    )
    starts = [start for start, _, _ in spans]
    for word in page.get("words") or ():
        draft.word(word.get("content"), _corners(word), segment=_line(word, spans, starts))


def _line(
    word: Mapping[str, Any], spans: Sequence[tuple[int, int, int]], starts: Sequence[int]
) -> int | None:
    """Returns the line whose span holds the word's."""
    if not spans or not word.get("span"):
        return None
    offset = _offset(word["span"])
    found = bisect_right(starts, offset) - 1
    return spans[found][2] if found >= 0 and offset < spans[found][1] else None


def _offset(span: Mapping[str, Any]) -> int:
    offset = span["offset"]
    if type(offset) is not int:
        raise TypeError(f"an offset is {offset!r}")
    return offset


def _corners(word: Mapping[str, Any]) -> Corners | None:
    """Returns the box around x1, y1, x2, y2, ... or around points {x, y} of older versions."""
    polygon = word.get("polygon") or word.get("boundingBox")
    if not polygon:
        return None
    if isinstance(polygon[0], Mapping):
        return around((point["x"], point["y"]) for point in polygon)
    return around(zip(polygon[::2], polygon[1::2], strict=True))
