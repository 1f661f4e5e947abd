"""Google Document AI: the `Document` of its OCR processors, as JSON or as a Python dict."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from hushdoc.document import Document
from hushdoc.reading.drafting import NOMINAL, Corners, Draft, around, number, reading_as
from hushdoc.reading_terms import ReadingLimits

READER = "document-ai"


def from_document_ai(
    data: Mapping[str, Any], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of a processor's answer; tokens of one line share a segment.

    Args:
        data: The answer (with its key `document`) or the document; keys in camelCase, as its JSON
            has them, or in snake_case, as `Document.to_dict` of Google's package writes them.
        id: A name for messages and results.
        limits: How much is read.

    Raises:
        UnsupportedFormatError: It is not such a document.
        InputError: A box or a word can't be used; the message names it.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("a document of Document AI", id):
        found = data.get("document", data)
        text = found["text"]
        if not isinstance(text, str):
            raise TypeError("its text is no string")
        for page in found["pages"]:
            size = page.get("dimension") or {}
            extent = (size.get("width") or NOMINAL, size.get("height") or NOMINAL)
            draft.page(*extent)
            lines = sorted(
                (_span(line)[0], segment) for segment, line in enumerate(page.get("lines") or ())
            )
            starts = [start for start, _ in lines]
            for token in page.get("tokens") or ():
                start, said = _span(token)[0], "".join(text[a:b] for a, b in _spans(token))
                line = bisect_right(starts, start) - 1
                segment = lines[line][1] if line >= 0 else None
                draft.word(said, _corners(token, extent), segment=segment)
    return draft.document()


def _get(data: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a key in camelCase or snake_case."""
    if name in data:
        return data[name]
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return data.get(snake)


def _spans(item: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Returns the ranges of the text; JSON has int64 as strings and leaves zeros out."""
    anchor = _get(item["layout"], "textAnchor") or {}
    return [
        (_index(_get(part, "startIndex") or 0), _index(_get(part, "endIndex") or 0))
        for part in _get(anchor, "textSegments") or ()
    ]


def _index(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or len(str(value)) > 15:
        raise TypeError(f"an index is {repr(value)[:40]}")
    found = int(value)
    if found < 0:
        raise ValueError(f"an index is {found}")
    return found


def _span(item: Mapping[str, Any]) -> tuple[int, int]:
    spans = _spans(item)
    return spans[0] if spans else (0, 0)


def _corners(token: Mapping[str, Any], extent: tuple[Any, Any]) -> Corners | None:
    """Returns the box around the vertices; a coordinate of zero is left out in JSON."""
    polygon = _get(token["layout"], "boundingPoly") or {}
    shares = _get(polygon, "normalizedVertices")
    if shares:
        width, height = number(extent[0]), number(extent[1])
        return around(
            (number(point.get("x", 0)) * width, number(point.get("y", 0)) * height)
            for point in shares
        )
    points = polygon.get("vertices")
    return around((point.get("x", 0), point.get("y", 0)) for point in points) if points else None
