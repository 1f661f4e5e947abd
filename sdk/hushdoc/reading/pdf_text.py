"""The text layer of a page of a PDF file: its words where they stand, and whether to trust it.

Contract: every call here is inside `pdf._pdfium`.
"""

from __future__ import annotations

import ctypes
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box
from hushdoc.errors import LimitExceededError
from hushdoc.reading.drafting import PIXELS_PER_INCH
from hushdoc.reading.pdf_images import covering, num_unseen

POINTS_PER_INCH = 72
MIN_READABLE = 0.7
"""A text layer with a smaller share of readable characters has a font without a map from glyphs
to characters: the page is read as an image instead."""

SCAN_SHARE, MIN_SCAN_WORDS = 0.5, 20
"""A page mostly covered by images, with fewer words than this, is a scan with a stamped
number: the words are in the images."""

MIN_HIDDEN_CHARACTERS = 100
"""So many invisible characters are the result of OCR on a scan."""

MAX_PAGE_CHARACTERS = 1_000_000
"""A page in small print has ten thousand."""

_SOFT_HYPHEN = "\x02"
"""What PDFium puts for a hyphen at the end of a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPage:
    """The text layer of a page in pixels, PIXELS_PER_INCH an inch or fewer, by the limits.

    Words are in the file's order, on the page as it is looked at; `readable` is the share of its
    characters that are. `blank`: nothing at all is on it. `scan`: it is images with a few words on
    them. `overlaid`: images cover most of it and its many words are seen beside or on them, as a
    header on a scan, or a slide; whatever the images say is not among the words.
    """

    width: int
    height: int
    words: Sequence[tuple[str, Box]]
    readable: float
    blank: bool
    scan: bool
    overlaid: bool

    @property
    def needs_ocr(self) -> bool:
        """Whether the page says more than its text layer does."""
        if not self.words:
            return not self.blank
        return self.scan or self.readable < MIN_READABLE


def text_page(page: Any, limits: ReadingLimits) -> TextPage:
    """Returns the text layer of an open page of pypdfium2; LimitExceededError past the limits."""
    width, height = page.get_size()
    scale = PIXELS_PER_INCH / POINTS_PER_INCH
    if width * height * scale**2 > limits.max_pixels:
        scale = (limits.max_pixels / (width * height)) ** 0.5
    size = max(1, int(width * scale)), max(1, int(height * scale))
    place = _Place(page, *size)
    under = covering(page, least_share=SCAN_SHARE)
    covered = under.share >= SCAN_SHARE
    with _layer(page) as layer:
        characters = list(_characters(layer))
        hidden = num_unseen(layer, under.hidden) if under.hidden else 0
    shown = [character for character, _ in characters if not character.isspace()]
    readable = sum(map(_is_readable, shown)) / len(shown) if shown else 0.0
    placed = ((text, place.box(box)) for text, box in _words(characters))
    words = [(text, box) for text, box in placed if box is not None]
    return TextPage(
        width=size[0],
        height=size[1],
        words=words,
        readable=readable,
        blank=under.blank,
        scan=covered and len(words) < MIN_SCAN_WORDS,
        overlaid=covered and len(words) >= MIN_SCAN_WORDS and hidden < MIN_HIDDEN_CHARACTERS,
    )


_Rectangle = tuple[float, float, float, float]
"""Left, bottom, right, top in the page's own points."""


@contextmanager
def _layer(page: Any) -> Iterator[Any]:
    layer = page.get_textpage()
    try:
        count = layer.count_chars()
        if count > MAX_PAGE_CHARACTERS:
            raise LimitExceededError(
                f"A page has {count} characters; at most {MAX_PAGE_CHARACTERS} are read. Split it, "
                "or pass it as an image."
            )
        yield layer
    finally:
        layer.close()


def _characters(layer: Any) -> Iterator[tuple[str, _Rectangle | None]]:
    """Yields each character of the text layer, with whitespace that PDFium adds, and its box."""
    import pypdfium2.raw as raw

    loose = raw.FS_RECTF()
    tight = [ctypes.c_double() for _ in range(4)]
    high = 0
    for index in range(layer.count_chars()):
        code = raw.FPDFText_GetUnicode(layer, index)
        if 0xD800 <= code < 0xDC00:  # the first half of a pair
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
        high = 0
        character = chr(code) if 0 < code < 0x110000 else "\ufffd"
        if character.isspace():
            yield character, None
            continue
        box = None
        if raw.FPDFText_GetCharBox(layer, index, *tight):
            left, right, bottom, top = (value.value for value in tight)
            box = (left, bottom, right, top)
        # The font's whole height: words of a line are level, whatever their characters.
        if raw.FPDFText_GetLooseCharBox(layer, index, loose):
            box = _grown(box, (loose.left, loose.bottom, loose.right, loose.top))
        yield character, box


def _grown(one: _Rectangle | None, other: _Rectangle) -> _Rectangle:
    if one is None:
        return other
    return (
        min(one[0], other[0]),
        min(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def _words(
    characters: Sequence[tuple[str, _Rectangle | None]],
) -> Iterator[tuple[str, _Rectangle]]:
    """Yields the runs of characters between whitespace, without invisible ones."""
    run: list[str] = []
    box: _Rectangle | None = None
    for character, place in [*characters, (" ", None)]:
        if character == _SOFT_HYPHEN:
            run.append("-")
            box = box if place is None else _grown(box, place)
        # After a hyphen the next line begins, and a box never spans two.
        if character.isspace() or character == _SOFT_HYPHEN:
            if run and box is not None:
                yield "".join(run), box
            run, box = [], None
        elif unicodedata.category(character) not in ("Cc", "Cs") and not _is_noncharacter(
            character
        ):
            run.append(character)
            box = box if place is None else _grown(box, place)


def _is_noncharacter(character: str) -> bool:
    """Returns whether Unicode guarantees that a code is never a character."""
    code = ord(character)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _is_readable(character: str) -> bool:
    return character == _SOFT_HYPHEN or (
        character != "\ufffd"
        and unicodedata.category(character) not in ("Cc", "Co", "Cs")
        and not _is_noncharacter(character)
    )


class _Place:
    """From a page's own points, whatever its rotation and crop, to pixels as it is looked at."""

    def __init__(self, page: Any, width: int, height: int) -> None:
        self._size = (width, height)
        far = max(page.get_size())
        origin, right, up = (
            _on_device(page, width, height, *point)
            for point in ((0.0, 0.0), (far, 0.0), (0.0, far))
        )
        self._origin = origin
        self._across = ((right[0] - origin[0]) / far, (right[1] - origin[1]) / far)
        self._up = ((up[0] - origin[0]) / far, (up[1] - origin[1]) / far)

    def box(self, box: _Rectangle) -> Box | None:
        """Returns the part of a rectangle that is on the page, or None."""
        corners = [self._pixel(box[x], box[y]) for x in (0, 2) for y in (1, 3)]
        width, height = self._size
        x0, x1 = min(x for x, _ in corners), max(x for x, _ in corners)
        y0, y1 = min(y for _, y in corners), max(y for _, y in corners)
        if not (x1 > 0 and y1 > 0 and x0 < width and y0 < height):  # nor where they are NaN
            return None
        return Box(x0=max(0.0, x0), y0=max(0.0, y0), x1=min(width, x1), y1=min(height, y1))

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        return (
            self._origin[0] + x * self._across[0] + y * self._up[0],
            self._origin[1] + x * self._across[1] + y * self._up[1],
        )


def _on_device(page: Any, width: int, height: int, x: float, y: float) -> tuple[float, float]:
    """Returns where a point stands, finer than the whole pixels in which PDFium answers."""
    import pypdfium2

    fine = max(1, min(1 << 8, (1 << 24) // max(width, height)))
    across, down = ctypes.c_int(), ctypes.c_int()
    pypdfium2.raw.FPDF_PageToDevice(page, 0, 0, width * fine, height * fine, 0, x, y, across, down)
    return across.value / fine, down.value / fine
