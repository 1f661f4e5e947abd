"""docling: a DoclingDocument, whose smallest pieces with a place are paragraphs and table cells.

So every word gets the box of its paragraph or cell, and they share a segment: what a model trained
with the boxes of segments reads anyway. A model trained with the boxes of words reads it worse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hushdoc.arguments import MalformedError, reading_as, short_repr
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import BoxError
from hushdoc.reading.drafting import Corners, Draft

READER = "docling"
SCHEMA = "DoclingDocument"
ROOTS = ("body", "furniture")

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
"""The one spelling of an item's number: by another one it would be read twice."""

_Piece = tuple[str, int, Mapping[str, Any]]
"""A text, its page's number and its box."""


def from_docling(
    data: Mapping[str, Any], *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of docling's JSON, in the order of its body; page furniture comes last.

    `data` is what `DoclingDocument.export_to_dict` returns or `save_as_json` wrote, or the answer
    of docling's server that was asked for JSON. A text that has no place, as where docling read a
    format without pages, is a BoxError.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with reading_as("a DoclingDocument", id):
        data = _unwrapped(data)
        pieces: dict[int, list[_Piece]] = {int(name): [] for name in data["pages"]}
        if len(pieces) != len(data["pages"]):  # each would be read as often as it is named
            raise MalformedError("two of its pages have one number")
        groups: set[str] = set()
        for item in _items(data):
            for piece in _pieces(item, data, groups, id):
                pieces[piece[1]].append(piece)
        for name, page in sorted(data["pages"].items(), key=lambda entry: int(entry[0])):
            size = page["size"]
            draft.page(size["width"], size["height"])
            for segment, (text, _, box) in enumerate(pieces[int(name)]):
                corners = _corners(box, size["height"])
                for word in text.split():
                    draft.word(word, corners, segment=segment)
    return draft.document()


def _unwrapped(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the DoclingDocument, which the server wraps twice."""
    for name in ("document", "json_content"):
        if "schema_name" not in data and name in data:
            data = data[name]
    if data["schema_name"] != SCHEMA:
        raise MalformedError(f"its schema is not {SCHEMA}")
    return data


def _items(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields every item that the tree reaches, in its order and once, whatever its references."""
    seen: set[str] = set()
    for root in ROOTS:
        pending = [iter((data.get(root) or {}).get("children") or ())]
        while pending:
            child = next(pending[-1], None)
            if child is None:
                pending.pop()
                continue
            reference = _reference(child)
            if reference in seen:
                continue
            seen.add(reference)
            item = _resolved(data, reference)
            yield item
            pending.append(iter(item.get("children") or ()))


def _reference(child: Mapping[str, Any]) -> str:
    reference: str = child["$ref"] if "$ref" in child else child["cref"]
    return reference


def _resolved(data: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    """Returns the item that "#/texts/3" names."""
    hash_sign, collection, number = reference.split("/")
    if hash_sign != "#" or not _NUMBER.fullmatch(number):
        raise MalformedError("a reference is malformed")
    item = data[collection][int(number)]
    if not isinstance(item, Mapping):
        raise MalformedError("what a reference names is no object")
    return item


def _pieces(
    item: Mapping[str, Any], data: Mapping[str, Any], groups: set[str], id: str
) -> Iterator[_Piece]:
    """Yields the texts of an item with their places; `groups` keeps those of rich cells."""
    places = item.get("prov") or ()
    if isinstance(item.get("data"), Mapping):
        below = {*map(_reference, item.get("children") or ())} - groups
        groups |= below
        for cell in item["data"].get("table_cells") or ():
            if cell["text"].strip() and not _said_below(cell, below, data):
                place = _first(places, cell["text"], id)
                yield cell["text"], _page(place), cell.get("bbox") or place["bbox"]
    elif isinstance(item.get("graph"), Mapping):
        for cell in item["graph"].get("cells") or ():
            # A key or value of a form that names a text repeats it.
            if cell["text"].strip() and not cell.get("item_ref"):
                place = cell.get("prov") or _first(places, cell["text"], id)
                yield cell["text"], _page(place), place["bbox"]
    elif (text := item.get("text")) is not None and text.strip():
        yield from _parts(text, places, _first(places, text, id))


def _said_below(cell: Mapping[str, Any], below: set[str], data: Mapping[str, Any]) -> bool:
    """Returns whether the items that a rich cell refers to say its text again, and no more.

    They are read below the table, with places of their own.
    """
    reference = None if cell.get("ref") is None else _reference(cell["ref"])
    if reference is None or reference not in below:
        return False
    below.remove(reference)  # no other cell's
    said: list[str] = []
    left = len(cell["text"])
    for child in _resolved(data, reference).get("children") or ():
        text: str = _resolved(data, _reference(child)).get("text") or ""
        left -= len(text)
        if left < 0:  # an item may be named any number of times
            return False
        said += text.split()
    own: str = cell["text"]
    return said == own.split()


def _parts(
    text: str, places: Sequence[Mapping[str, Any]], first: Mapping[str, Any]
) -> Iterator[_Piece]:
    """Yields a paragraph's parts, where it goes on in the next column or on the next page.

    Each part begins where docling says; where it says that one ends may count a list's marker in,
    which the text leaves out.
    """
    starts = [0, *(int(place["charspan"][0]) for place in places[1:]), len(text)]
    if starts != sorted(starts):  # they are places of another text
        places, starts = [first], [0, len(text)]
    for place, start, stop in zip(places, starts[:-1], starts[1:], strict=True):
        yield text[start:stop], _page(place), place["bbox"]


def _first(places: Sequence[Mapping[str, Any]], text: str, id: str) -> Mapping[str, Any]:
    if not places:
        raise BoxError(
            f"The text {short_repr(text)} of '{id}' (docling) has no place: docling read it from a "
            "format without pages. Pass its text with Document.from_text, or convert the file to "
            "PDF first."
        )
    return places[0]


def _page(place: Mapping[str, Any]) -> int:
    return int(place["page_no"])


def _corners(box: Mapping[str, Any], height: float) -> Corners:
    """Returns the corners from the top left; PDF files count from the bottom."""
    if box.get("coord_origin", "TOPLEFT") == "BOTTOMLEFT":
        return (box["l"], height - box["t"], box["r"], height - box["b"])
    return (box["l"], box["t"], box["r"], box["b"])
