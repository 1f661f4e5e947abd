"""docTR: what `result.export()` returns, its KIE predictor's too, and what its server answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hushdoc.arguments import MalformedError, reading_as
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.reading.drafting import Corners, Draft, around_polygon
from hushdoc.reading.layout import in_reading_order

READER = "doctr"

_Item = Mapping[str, Any]


def from_doctr(
    data: _Item | Sequence[_Item], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of an export; words of one line share a segment.

    `data` is the export of a document or of one page, with geometry in shares of the page; or the
    answer of docTR's server, which has one object for each page. The KIE predictor has neither
    order nor lines of words, so both are derived from the boxes.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    has_lines = True
    with reading_as("an export of docTR", id):
        for page in _pages(data):
            height, width = page["dimensions"]
            if type(height) is not int or type(width) is not int:
                raise MalformedError("the dimensions of a page are no integers")
            draft.page(1, 1, pixels=_positive(width, height))
            has_lines = has_lines and "predictions" not in page
            for segment, words in enumerate(_lines(page)):
                for word in words:
                    draft.word(word.get("value"), _corners(word), segment=segment)
    document = draft.document()
    return document if has_lines else in_reading_order(document)


def _pages(data: _Item | Sequence[_Item]) -> Sequence[_Item]:
    if not isinstance(data, Mapping):
        return data
    pages: Sequence[_Item] = [data] if "dimensions" in data else data["pages"]
    return pages


def _lines(page: _Item) -> Iterator[Sequence[_Item]]:
    """Yields the words of each line, or of each class of the KIE predictor."""
    if "predictions" in page:
        found = page["predictions"]
        if isinstance(found, Mapping):
            yield from found.values()
        else:
            yield from (group["items"] for group in found)
        return
    for part in page.get("items", [page]):
        for block in part["blocks"]:
            yield from (line["words"] for line in block["lines"])


def _positive(width: int, height: int) -> tuple[int, int]:
    if min(width, height) < 1:
        raise MalformedError(f"a page is {width} x {height} pixels")
    return width, height


def _corners(word: _Item) -> Corners | None:
    """Returns the box around two corners, or around the four of a turned word.

    They are points, or one list of coordinates in the server's answers.
    """
    geometry: Any = word.get("geometry")
    if hasattr(geometry, "tolist"):  # an array, where the export was never written as JSON
        geometry = geometry.tolist()
    return around_polygon(geometry) if geometry else None
