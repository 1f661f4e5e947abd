"""Microsoft Read: Azure Document Intelligence, Form Recognizer, Azure Vision, Image Analysis 4.

Each is read as its REST interface answers and as Microsoft's Python packages save it (`as_dict`,
`to_dict`), whose keys are in snake_case and whose points are objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hushdoc.arguments import MalformedError, reading_as, short_repr
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import BoxError, UnsupportedFormatError
from hushdoc.reading.drafting import (
    PIXELS_PER_INCH,
    Corners,
    Draft,
    around,
    around_polygon,
    get,
    side,
)

READER = "azure-read"
RESULTS = ("readResults", "recognitionResults", "pages")
POLYGONS = ("polygon", "boundingBox", "boundingPolygon")

_Item = Mapping[str, Any]


def from_azure_read(
    data: _Item | Sequence[_Item], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of an `analyzeResult`; words of one line share a segment.

    `data` is the whole answer, its `analyzeResult`, what `as_dict` or `to_dict` of Microsoft's
    packages return, or the list of pages of Form Recognizer's first package. Pages of PDF files are
    measured in inches; they get PIXELS_PER_INCH pixels an inch. Boxes stay where the service saw
    them: a page that lay askew is not turned. A file without pages, as of Word, is a BoxError.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("an answer of Azure Read", id):
        for page in _pages(data, id):
            _begin(draft, page)
            lines = _lines(page)
            if any("words" in line for line in lines):
                for segment, line in enumerate(lines):
                    for word in line.get("words") or ():
                        draft.word(_text(word), _corners(word), segment=segment)
            else:
                _add_words(draft, page, lines)
    return draft.document()


def _pages(data: _Item | Sequence[_Item], id: str) -> Iterator[_Item]:
    """Yields the pages of any of the forms."""
    if isinstance(data, Sequence):
        yield from data
        return
    result = get(data, "analyzeResult")
    if result is None:
        result = data
    image = get(result, "readResult")
    if image is not None:  # Image Analysis has the size of the one image beside it
        yield from image.get("pages") or [{**result["metadata"], **image}]
        return
    for name in RESULTS:
        pages = get(result, name)
        if pages is not None:
            yield from pages
            return
    if "status" in data:
        raise UnsupportedFormatError(
            f"'{id}' is an answer of Azure Read without a result: its status is "
            f"{short_repr(data['status'])}. Pass the answer of an operation that has succeeded."
        )
    raise KeyError(RESULTS[-1])


def _begin(draft: Draft, page: _Item) -> None:
    where = f"a page of '{draft.id}' ({READER})"
    if page.get("width") is None and page.get("height") is None and page.get("words"):
        raise BoxError(
            f"The size of {where} is missing: the service read it from a format without pages, "
            "such as that of Word. Pass its text with Document.from_text, or convert the file to "
            "PDF first."
        )
    width, height = page["width"], page["height"]
    pixels = None
    if page.get("unit") == "inch":
        across, down = (side(value, of=where) * PIXELS_PER_INCH for value in (width, height))
        pixels = (max(1, round(across)), max(1, round(down)))
    draft.page(width, height, pixels=pixels)


def _lines(page: _Item) -> list[_Item]:
    blocks = page.get("blocks")
    if blocks is not None and "lines" not in page:
        return [line for block in blocks for line in block["lines"]]
    return list(page.get("lines") or ())


def _add_words(draft: Draft, page: _Item, lines: Sequence[_Item]) -> None:
    spans = sorted(
        (_offset(span), _offset(span) + int(span["length"]), segment)
        for segment, line in enumerate(lines)
        for span in line.get("spans") or ()
    )
    starts = [start for start, _, _ in spans]
    for word in page.get("words") or ():
        draft.word(_text(word), _corners(word), segment=_line(word, spans, starts))


def _line(word: _Item, spans: Sequence[tuple[int, int, int]], starts: Sequence[int]) -> int | None:
    """Returns the line whose span holds the word's."""
    if not spans or not word.get("span"):
        return None
    offset = _offset(word["span"])
    found = bisect_right(starts, offset) - 1
    return spans[found][2] if found >= 0 and offset < spans[found][1] else None


def _offset(span: _Item) -> int:
    offset = span["offset"]
    if type(offset) is not int:
        raise MalformedError(f"an offset is {type(offset).__name__}, no integer")
    return offset


def _text(word: _Item) -> object:
    return word["content"] if "content" in word else word.get("text")


def _corners(word: _Item) -> Corners | None:
    """Returns the box around x1, y1, x2, y2, ... or around points {x, y}."""
    polygon = next((found for name in POLYGONS if (found := get(word, name))), None)
    if polygon is None:
        return None
    if isinstance(polygon[0], Mapping):
        return around((point["x"], point["y"]) for point in polygon)
    return around_polygon(polygon)
