"""What covers what on a page of a PDF file: its images, and characters that are not visible.

Scanners write a page as one image or as many strips and tiles, and OCR programs put the text
below the images or write it without ink. Every call here is inside `pdf._pdfium`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

GRID = 64
"""Points along each side of a page by which its covered share is measured: a page of more strips
than these is measured as well as one of few."""

MAX_OBJECTS = 100_000
"""Objects of a page that are looked at. Forms inside forms can make a page of any number of them
out of a few lines."""

MAX_DEPTH = 15
"""Forms inside forms that are looked into."""

_BLANK = 0x20

_Matrix = tuple[float, float, float, float, float, float]
_Found = tuple[Any, int, _Matrix | None]
"""An object, its type, and the matrix from the coordinates of its form to the page's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Covering:
    """How far a page's images cover it, as a share from 0 to 1.

    `blank` is a page without any object. Hidden are the text objects, by address, that are without
    ink or under an image; only pages of which images cover a given share are searched for them.
    """

    blank: bool
    share: float
    hidden: frozenset[int]


def covering(page: Any, *, least_share: float) -> Covering:
    """Returns how far images cover an open page; what they hide is known from `least_share` on."""
    import pypdfium2.raw as raw

    found = list(islice(_objects(page), MAX_OBJECTS))
    images = [one for one in found if one[1] == raw.FPDF_PAGEOBJ_IMAGE]
    grid = _Grid(page)
    for image in images:
        grid.cover(_bounds(image))
    share = grid.share
    hidden = _hidden(found, _Grid(page)) if images and share >= least_share else frozenset()
    return Covering(blank=not found, share=share, hidden=hidden)


def num_unseen(layer: Any, hidden: frozenset[int]) -> int:
    """Returns how many characters of a text layer belong to the hidden text objects."""
    import pypdfium2.raw as raw

    return sum(
        raw.FPDFText_GetUnicode(layer, index) > _BLANK
        and _address(raw.FPDFText_GetTextObject(layer, index)) in hidden
        for index in range(layer.count_chars())
    )


def _objects(page: Any) -> Iterator[_Found]:
    """Yields the objects of a page in the order of drawing, each form before what it holds."""
    import pypdfium2.raw as raw

    # A stack and no recursion: the file says how deep its forms go.
    stack = [_listed(raw.FPDFPage_GetObject, page, raw.FPDFPage_CountObjects(page), None)]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            continue
        yield found
        form, object_type, matrix = found
        if object_type == raw.FPDF_PAGEOBJ_FORM and len(stack) < MAX_DEPTH:
            count = raw.FPDFFormObj_CountObjects(form)
            inner = _inner(form, matrix)
            stack.append(_listed(raw.FPDFFormObj_GetObject, form, count, inner))


def _listed(
    get: Callable[[Any, int], Any], parent: Any, count: int, matrix: _Matrix | None
) -> Iterator[_Found]:
    """Yields the objects that a page or a form holds itself."""
    import pypdfium2.raw as raw

    for index in range(count):
        found = get(parent, index)
        if found:
            yield found, raw.FPDFPageObj_GetType(found), matrix


def _inner(form: Any, outer: _Matrix | None) -> _Matrix | None:
    """Returns the matrix from the coordinates inside a form to the page's."""
    import pypdfium2.raw as raw

    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(form, found):
        return outer
    a, b, c, d, e, f = (float(getattr(found, name)) for name in "abcdef")
    if outer is None:
        return a, b, c, d, e, f
    p, q, r, s, t, u = outer
    return (
        a * p + b * r,
        a * q + b * s,
        c * p + d * r,
        c * q + d * s,
        e * p + f * r + t,
        e * q + f * s + u,
    )


def _bounds(found: _Found) -> Sequence[float] | None:
    """Returns left, bottom, right and top in the page's coordinates."""
    import pypdfium2.raw as raw

    thing, _, matrix = found
    sides = [ctypes.c_float() for _ in range(4)]
    if not raw.FPDFPageObj_GetBounds(thing, *sides):
        return None
    left, bottom, right, top = (side.value for side in sides)
    if matrix is not None:
        a, b, c, d, e, f = matrix
        corners = [(x, y) for x in (left, right) for y in (bottom, top)]
        across = [a * x + c * y + e for x, y in corners]
        up = [b * x + d * y + f for x, y in corners]
        left, bottom, right, top = min(across), min(up), max(across), max(up)
    return (
        (left, bottom, right, top) if all(map(math.isfinite, (left, bottom, right, top))) else None
    )


def _hidden(found: Sequence[_Found], grid: _Grid) -> frozenset[int]:
    """Returns the text objects that are without ink, or under an image that is drawn later."""
    import pypdfium2.raw as raw

    inkless = (raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP)
    hidden = set()
    for one in reversed(found):
        if one[1] == raw.FPDF_PAGEOBJ_IMAGE:
            grid.cover(_bounds(one))
        elif one[1] == raw.FPDF_PAGEOBJ_TEXT and (
            raw.FPDFTextObj_GetTextRenderMode(one[0]) in inkless or grid.covers(_bounds(one))
        ):
            hidden.add(_address(one[0]))
    return frozenset(hidden)


def _address(found: Any) -> int:
    return ctypes.cast(found, ctypes.c_void_p).value or 0


class _Grid:
    """Points of a page, and which of them are covered: a row of bits for each of its rows."""

    def __init__(self, page: Any) -> None:
        import pypdfium2.raw as raw

        shown = raw.FS_RECTF()
        known = raw.FPDF_GetPageBoundingBox(page, shown)
        self._left, self._bottom = shown.left, shown.bottom
        self._width, self._height = shown.right - shown.left, shown.top - shown.bottom
        self._exists = bool(known) and self._width > 0 and self._height > 0
        self._rows = [0] * GRID

    @property
    def share(self) -> float:
        return sum(row.bit_count() for row in self._rows) / GRID**2

    def cover(self, bounds: Sequence[float] | None) -> None:
        """Marks the points inside a rectangle."""
        if bounds is None or not self._exists:
            return
        left, bottom, right, top = bounds
        first, end = _points((left - self._left) / self._width, (right - self._left) / self._width)
        row = (1 << end) - (1 << first) if end > first else 0
        for number in range(
            *_points((bottom - self._bottom) / self._height, (top - self._bottom) / self._height)
        ):
            self._rows[number] |= row

    def covers(self, bounds: Sequence[float] | None) -> bool:
        """Returns whether the middle of a rectangle is covered."""
        if bounds is None or not self._exists:
            return False
        left, bottom, right, top = bounds
        across = ((left + right) / 2 - self._left) / self._width
        up = ((bottom + top) / 2 - self._bottom) / self._height
        if not (0 <= across < 1 and 0 <= up < 1):
            return False
        return bool(self._rows[int(up * GRID)] >> int(across * GRID) & 1)


def _points(low: float, high: float) -> tuple[int, int]:
    """Returns the first point between two shares of a side, and the one after the last."""
    first = math.ceil(max(0.0, min(1.0, low)) * GRID - 0.5)
    end = math.floor(max(0.0, min(1.0, high)) * GRID - 0.5) + 1
    return max(0, first), min(GRID, end)
