"""The tree of a PDF file's form fields, walked before PDFium walks it.

PDFium goes down 32 levels from every field and every widget of a page, and into a kid as often as
it is named: kids that are shared, or circle, multiply its work at every level. It has no function
that shows the tree, so a copy is walked that it writes: without encryption or streams of objects.

Contract: time is linear in the size of the file; every call is inside `pdf._pdfium`.
"""

from __future__ import annotations

import io
import re
from typing import Any

from hushdoc.errors import LimitExceededError

MAX_FIELDS = 20_000
"""Fields, each as often as it is reached; PDFium compares the names on one level in pairs."""

MAX_STEPS = 1_000_000
"""Steps from each field up its parents, whose names are joined; 100 characters are one more."""

_LEVELS = 32
_TOKEN = re.compile(
    rb"\s*(?:(?P<open><<|\[)|(?P<close>>>|\])|/(?P<name>[^\s/<>\[\]()]*)|(?P<object>\d+) \d+ R\b"
    rb"|(?P<other>\((?:[^()\\]|\\.)*\)|<[0-9A-Fa-f\s]*>|[^\s/<>\[\]()]+))",
    re.DOTALL,
)
_HEAD = re.compile(rb"\s*\d+ \d+ obj\b")
_TABLE = re.compile(rb"xref\s+")
_PART = re.compile(rb"(\d+) (\d+)\r?\n")
_ROW = 20
"""Bytes of a row of the table of objects."""


def require_bounded(file: Any, id: str) -> None:
    """Raises LimitExceededError where PDFium would walk the fields of an open file for too long."""
    import pypdfium2

    copy = io.BytesIO()
    file.save(copy, flags=pypdfium2.raw.FPDF_REMOVE_SECURITY)
    if not _Form(_Objects(copy.getvalue())).is_bounded():
        raise LimitExceededError(
            f"The form in the PDF file '{id}' has more than {MAX_FIELDS} fields, or more than "
            f"{MAX_STEPS} parents above them, each counted as often as it is reached: fields that "
            "are shared, or circle, are reached again and again. Expected a tree of fields; print "
            "the file into another PDF file, or leave it out."
        )


class _Form:
    """The fields of a file, counted as PDFium walks them."""

    def __init__(self, objects: _Objects) -> None:
        self._objects = objects
        self._fields = self._steps = 0

    def is_bounded(self) -> bool:
        """Returns whether PDFium walks all fields in the time that files have."""
        catalog = self._objects.entries(self._objects.entries(self._objects.trailer).get("Root"))
        form = self._objects.entries(catalog.get("AcroForm"))
        listed = self._objects.items(form.get("Fields"))
        widgets = self._widgets(catalog.get("Pages"))
        below = [widget for widget in widgets if "Kids" in self._objects.entries(widget)]
        return (
            self._count([*listed, *below])
            and self._fields <= MAX_FIELDS
            and all(self._climb(widget) for widget in widgets)
        )

    def _widgets(self, pages: Any) -> list[Any]:
        """Returns the widgets on all pages, each once."""
        found: list[Any] = []
        seen: set[int] = set()
        left = [pages]
        while left:
            one = left.pop()
            if isinstance(one, int):
                if one in seen:
                    continue
                seen.add(one)
            if isinstance(listed := self._objects.found(one), list):
                left += listed
            elif isinstance(listed, dict) and listed.get("Subtype") == "Widget":
                found.append(one)
            elif isinstance(listed, dict):
                left += [listed.get("Kids"), listed.get("Annots")]
        return found

    def _count(self, fields: list[Any]) -> bool:
        """Counts fields and what is below them; False as soon as there are too many."""
        left = [(field, 0) for field in fields]
        while left:
            self._fields += 1
            field, level = left.pop()
            entries = self._objects.entries(field)
            kids = self._objects.items(entries.get("Kids"))
            first = self._objects.entries(kids[0]) if kids else {}
            if not ("T" in first or "Kids" in first):
                self._steps += len(kids)
                if not self._climb(field):
                    return False
            elif level < _LEVELS:
                left += [(kid, level + 1) for kid in kids if kid != field]
            if self._fields + len(left) > MAX_FIELDS:
                return False
        return True

    def _climb(self, field: Any) -> bool:
        """Counts the parents of a field; False if there are too many."""
        seen: set[int] = set()
        while isinstance(field, int | dict) and self._steps <= MAX_STEPS:
            entries = self._objects.entries(field)
            self._steps += 1 + len(entries.get("T", b"")) // 100
            field = entries.get("Parent")
            if isinstance(field, int):
                if field in seen:
                    break
                seen.add(field)
        return self._steps <= MAX_STEPS


class _Objects:
    """The objects of a file as PDFium writes it: one table, and each parsed when it is asked for.

    A reference is an integer, a name is a string without its stroke, and everything else that is
    neither a dictionary nor an array is the bytes that stand there.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._places: dict[int, int] = {}
        self._parsed: dict[int, Any] = {}
        start = int(content[content.rindex(b"startxref") :].split()[1])
        table = _TABLE.match(content, start)
        place = start if table is None else table.end()
        while part := _PART.match(content, place):
            first, count = int(part[1]), int(part[2])
            for row in range(count):
                where = part.end() + row * _ROW
                self._places[first + row] = int(content[where : where + 10])
            place = part.end() + count * _ROW
        self.trailer = self._value(content.index(b"<<", place))

    def entries(self, value: Any) -> dict[str, Any]:
        """Returns a dictionary that stands there or is referred to; an empty one for others."""
        found = self.found(value)
        return found if isinstance(found, dict) else {}

    def items(self, value: Any) -> list[Any]:
        """Returns an array that stands there or is referred to; an empty one for others."""
        found = self.found(value)
        return found if isinstance(found, list) else []

    def found(self, value: Any) -> Any:
        """Returns what stands there or is referred to."""
        if not isinstance(value, int):
            return value
        if value not in self._parsed:
            head = _HEAD.match(self._content, self._places.get(value, 0))
            self._parsed[value] = None if head is None else self._value(head.end())
        return self._parsed[value]

    def _value(self, place: int) -> Any:
        """Returns what stands at a place of the file."""
        nested: list[list[Any]] = [[]]
        while found := _TOKEN.match(self._content, place):
            place = found.end()
            if found["open"]:
                nested.append([])
                continue
            if found["close"] is None:
                name, number = found["name"], found["object"]
                other = found["other"] if number is None else int(number)
                value = other if name is None else name.decode("latin-1")
            elif found["close"] == b"]":
                value = nested.pop()
            else:
                pairs = iter(nested.pop())
                value = dict(zip(pairs, pairs, strict=False))
            nested[-1].append(value)
            if len(nested) == 1:
                return value
        return None
