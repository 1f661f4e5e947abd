"""Google Document AI: the `Document` of its OCR processors, as JSON or as a Python dict."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from hushdoc.arguments import MalformedError, reading_as
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import LimitExceededError, UnsupportedFormatError
from hushdoc.reading.drafting import NOMINAL, Corners, Draft, around, get, number

READER = "document-ai"

MAX_REPEATS = 4
"""How often tokens together may name the text: otherwise a small file says any amount of it."""

_Item = Mapping[str, Any]


def from_document_ai(
    data: _Item | Sequence[_Item], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of a processor's answer; tokens of one line share a segment.

    `data` is the answer (with its key `document`), the document, or the documents that a batch
    split one file into; keys in camelCase, as its JSON has them, or in snake_case, as
    `Document.to_dict` of Google's package writes them. Boxes are on the page as the service set it
    upright. A token is a word or a sign beside it: of "Date: today" it makes three.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("a document of Document AI", id):
        for found in _shards(data):
            if get(found, "documentLayout") and not found.get("pages"):
                raise UnsupportedFormatError(
                    f"'{id}' is what Document AI's layout parser wrote, without any page of "
                    "words. Have an OCR processor read the file."
                )
            text = _Text(found.get("text", ""), id)
            for page in found["pages"]:
                _add_page(draft, page, text)
    return draft.document()


def _shards(data: _Item | Sequence[_Item]) -> list[_Item]:
    """Returns the documents of one file, in their order."""
    if isinstance(data, Mapping):
        return [data.get("document", data)]
    found = [shard.get("document", shard) for shard in data]
    return sorted(found, key=_place)


def _place(shard: _Item) -> int:
    return _index(get(get(shard, "shardInfo") or {}, "shardIndex") or 0)


def _add_page(draft: Draft, page: _Item, text: _Text) -> None:
    """Adds a page by its tokens, or by its lines where it has no tokens."""
    size = page.get("dimension") or {}
    extent = (size.get("width") or NOMINAL, size.get("height") or NOMINAL)
    draft.page(*extent)
    found = page.get("lines") or ()
    lines = sorted((_start(line), segment) for segment, line in enumerate(found))
    starts = [start for start, _ in lines]
    for item in page.get("tokens") or found:
        line = bisect_right(starts, _start(item)) - 1
        segment = lines[line][1] if line >= 0 else None
        draft.line(text.said(item), _corners(item, extent), segment=segment)


class _Text:
    """The text of a document, of which tokens are parts."""

    def __init__(self, text: object, id: str) -> None:
        if not isinstance(text, str):
            raise MalformedError("its text is no string")
        self._text, self._id = text, id
        self._left = MAX_REPEATS * len(text)

    def said(self, item: _Item) -> str:
        """Returns the part that an item names; LimitExceededError where items repeat the text."""
        spans = _spans(item)
        self._left -= sum(max(0, min(end, len(self._text)) - start) for start, end in spans)
        if self._left < 0:
            raise LimitExceededError(
                f"The tokens of '{self._id}' (document-ai) name its text more than {MAX_REPEATS} "
                "times over; each character belongs to one. Write the file again."
            )
        return "".join(self._text[start:end] for start, end in spans)


def _spans(item: _Item) -> list[tuple[int, int]]:
    """Returns the ranges of the text; JSON has int64 as strings and leaves zeros out."""
    anchor = get(item["layout"], "textAnchor") or {}
    return [
        (_index(get(part, "startIndex") or 0), _index(get(part, "endIndex") or 0))
        for part in get(anchor, "textSegments") or ()
    ]


def _index(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or len(str(value)) > 15:
        raise MalformedError(f"an index is {type(value).__name__}, no number of a character")
    found = int(value)
    if found < 0:
        raise MalformedError("an index is below 0")
    return found


def _start(item: _Item) -> int:
    spans = _spans(item)
    return spans[0][0] if spans else 0


def _corners(item: _Item, extent: tuple[Any, Any]) -> Corners | None:
    """Returns the box around the vertices; a coordinate of zero is left out in JSON."""
    polygon = get(item["layout"], "boundingPoly") or {}
    shares = get(polygon, "normalizedVertices")
    if shares:
        width, height = number(extent[0]), number(extent[1])
        return around(
            (number(point.get("x", 0)) * width, number(point.get("y", 0)) * height)
            for point in shares
        )
    points = polygon.get("vertices")
    return around((point.get("x", 0), point.get("y", 0)) for point in points) if points else None
