"""Amazon Textract: its answers about text, forms, expenses and identity documents.

Words come from blocks. Older answers about expenses have none: there each label and value that was
detected is read as a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hushdoc.arguments import MalformedError, reading_as, short_repr
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box
from hushdoc.errors import InputError, UnsupportedFormatError
from hushdoc.reading.drafting import NOMINAL, Corners, Draft, around, number, shares

READER = "textract"
PARTS = ("ExpenseDocuments", "IdentityDocuments")
"""Where AnalyzeExpense and AnalyzeID keep the blocks of each document that they found."""

DETECTED = "DETECTION"
"""Stands in for the block of a detected label or value, which is a line of its own."""

PageSizes = Sequence[tuple[int, int]]


def from_textract(
    data: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    page_sizes: PageSizes | None = None,
    id: str = "document",
    limits: ReadingLimits | None = None,
) -> Document:
    """Returns the document of Textract's answer; words of one LINE share a segment.

    Boxes stay where Textract saw them: a page that was scanned sideways is not turned.

    Args:
        data: The response of DetectDocumentText, AnalyzeDocument, AnalyzeExpense or AnalyzeID, or
            all responses of an asynchronous job in their order; none may be missing.
        page_sizes: (width, height) in pixels of each page. Textract has shares of the page
            alone; without sizes every page is NOMINAL x NOMINAL.
        id: A name for messages and results.
        limits: How much is read.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("Textract's answer", id):
        responses = [data] if isinstance(data, Mapping) else data
        _check_whole(responses, id)
        blocks = [block for response in responses for block in _blocks(response, id)]
        words = {str(block["Id"]): block for block in blocks if block["BlockType"] == "WORD"}
        pages = _pages(blocks, words)
        for index in range(max(pages, default=0)):
            size = (NOMINAL, NOMINAL) if page_sizes is None else page_sizes[index]
            draft.page(1, 1, pixels=(int(size[0]), int(size[1])))
            for block, segment in pages.get(index + 1, ()):
                add = draft.line if block["BlockType"] == DETECTED else draft.word
                add(block.get("Text"), _corners(block), segment=segment)
    return draft.document()


_Found = tuple[Mapping[str, Any], int | None]


def _check_whole(responses: Sequence[Mapping[str, Any]], id: str) -> None:
    """Raises where the last response says that others follow."""
    if responses and responses[-1].get("NextToken"):
        raise InputError(
            f"'{id}' is a part of Textract's answer: its last response has a NextToken. Pass the "
            "list of all responses; where they were joined into one, remove that key."
        )


def _blocks(response: Mapping[str, Any], id: str) -> Iterator[Mapping[str, Any]]:
    """Yields the blocks of one response."""
    for name in PARTS:
        if name in response:
            for part in response[name]:
                if "Blocks" in part:
                    yield from part["Blocks"]
                else:
                    yield from _detections(part, id)
            return
    if "JobStatus" in response and "Blocks" not in response:
        raise UnsupportedFormatError(
            f"'{id}' is Textract's word that a job's status is "
            f"{short_repr(response['JobStatus'])}, without any blocks. Pass the answer of a job "
            "that has succeeded."
        )
    yield from response["Blocks"]


def _detections(part: Mapping[str, Any], id: str) -> Iterator[Mapping[str, Any]]:
    """Yields a line for each label and value of a document without blocks."""
    if "IdentityDocumentFields" in part:
        raise UnsupportedFormatError(
            f"'{id}' is AnalyzeID's answer without blocks, which says nothing of where on the page "
            "its words stand. Ask DetectDocumentText about the same image, and pass that answer."
        )
    yield from _lines(part.get("SummaryFields") or ())
    for group in part.get("LineItemGroups") or ():
        for item in group.get("LineItems") or ():
            fields = item.get("LineItemExpenseFields") or ()
            columns = list(_lines(field for field in fields if not _is_row(field)))
            yield from columns
            read = Counter(word for column in columns for word in column["Text"].split())
            for row in _lines(filter(_is_row, fields)):
                yield from _rest(row, read)


def _lines(fields: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for field in fields:
        for name in ("LabelDetection", "ValueDetection"):
            found = field.get(name) or {}
            if found.get("Text") and found.get("Geometry"):
                yield {
                    "BlockType": DETECTED,
                    "Page": field.get("PageNumber"),
                    "Text": found["Text"],
                    "Geometry": found["Geometry"],
                }


def _is_row(field: Mapping[str, Any]) -> bool:
    """Returns whether a field is the whole row of an item, which repeats the item's others."""
    return (field.get("Type") or {}).get("Text") == "EXPENSE_ROW"


def _rest(row: Mapping[str, Any], read: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields the words of a row that none of its columns has, each with its share of the box."""
    corners = _corners(row)
    if corners is None:
        raise MalformedError("an item's row has no place")
    x0, y0, x1, y1 = map(number, corners)
    for word, share in shares(row["Text"], Box(x0=x0, y0=y0, x1=x1, y1=y1)):
        if read[word]:
            read[word] -= 1
            continue
        size = {"Width": share.x1 - share.x0, "Height": share.y1 - share.y0}
        place = {"Left": share.x0, "Top": share.y0, **size}
        yield {**row, "Text": word, "Geometry": {"BoundingBox": place}}


def _pages(
    blocks: Sequence[Mapping[str, Any]], words: Mapping[str, Mapping[str, Any]]
) -> dict[int, list[_Found]]:
    """Returns each page's words in the order of their lines; words of no line come last."""
    pages: dict[int, list[_Found]] = {}
    counts: dict[int, int] = {}
    seen: set[str] = set()
    for block in blocks:
        if block["BlockType"] == "PAGE":
            pages.setdefault(_page(block), [])
        if block["BlockType"] == DETECTED:
            page = _page(block)
            segment = counts[page] = counts.get(page, -1) + 1
            pages.setdefault(page, []).append((block, segment))
        if block["BlockType"] != "LINE":
            continue
        page = _page(block)
        segment = counts[page] = counts.get(page, -1) + 1
        for name in _children(block):
            if name not in words:
                raise MalformedError(f"a line's word {name[:40]!r} is in none of the responses")
            if name not in seen:
                seen.add(name)
                pages.setdefault(page, []).append((words[name], segment))
    for name, block in words.items():
        if name not in seen:
            pages.setdefault(_page(block), []).append((block, None))
    return pages


def _children(block: Mapping[str, Any]) -> Iterator[str]:
    for relation in block.get("Relationships") or ():
        if relation["Type"] == "CHILD":
            yield from map(str, relation["Ids"])


def _page(block: Mapping[str, Any]) -> int:
    """Returns a block's page, from 1; answers about a single image leave it out."""
    page = block.get("Page")
    if page is None:
        return 1
    if type(page) is not int or not 1 <= page <= 1_000_000:
        raise MalformedError("a block's page is no number from 1")
    return page


def _corners(block: Mapping[str, Any]) -> Corners | None:
    geometry = block.get("Geometry") or {}
    box = geometry.get("BoundingBox")
    if box is not None:
        left, top = box["Left"], box["Top"]
        return (left, top, left + box["Width"], top + box["Height"])
    polygon = geometry.get("Polygon")
    return around((point["X"], point["Y"]) for point in polygon) if polygon else None
