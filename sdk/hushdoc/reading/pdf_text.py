"""The text layer of a page of a PDF file: its words where they stand, and whether to trust it.

Contract: every call here is inside `pdf._pdfium`.
"""

from __future__ import annotations

import ctypes
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box
from hushdoc.errors import LimitExceededError
from hushdoc.reading.drafting import PIXELS_PER_INCH
from hushdoc.reading.pdf_characters import (
    SOFT_HYPHEN,
    Character,
    Rectangle,
    characters,
    is_noncharacter,
)
from hushdoc.reading.pdf_images import covering, num_unseen
from hushdoc.reading.pdf_notes import UNREAD
from hushdoc.reading.pdf_words import words_of

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


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPage:
    """The text layer of a page in pixels, PIXELS_PER_INCH an inch or fewer, by the limits.

    Words are in the file's order, on the page as it is looked at; `readable` is the share of its
    characters that are. `blank`: nothing at all is on it. `scan`: it is images with a few words on
    them. `overlaid`: images cover most of it and its many words are seen beside or on them, as a
    header on a scan, or a slide; whatever the images say is not among the words. `notes_unread`:
    fields or notes show whose words are not among the words.
    """

    width: int
    height: int
    words: Sequence[tuple[str, Box]]
    readable: float
    blank: bool
    scan: bool
    overlaid: bool
    notes_unread: bool

    @property
    def needs_ocr(self) -> bool:
        """Whether the page says more than its text layer does."""
        if not self.words:
            return not self.blank
        return self.scan or self.notes_unread or self.readable < MIN_READABLE


def text_page(page: Any, notes: Any | None, limits: ReadingLimits) -> TextPage:
    """Returns the text layers of an open page of pypdfium2 and of the notes on it, page first.

    LimitExceededError past the limits.
    """
    width, height = page.get_size()
    scale = PIXELS_PER_INCH / POINTS_PER_INCH
    if width * height * scale**2 > limits.max_pixels:
        scale = (limits.max_pixels / (width * height)) ** 0.5
    size = max(1, int(width * scale)), max(1, int(height * scale))
    place = _Place(page, *size)
    under = covering(page, least_share=SCAN_SHARE)
    covered = under.share >= SCAN_SHARE
    with _layer(page) as layer:
        found = list(characters(layer))
        hidden = num_unseen(layer, under.hidden) if under.hidden else 0
    if notes not in (None, UNREAD):
        with _layer(notes) as layer:
            found += [Character(" "), *characters(layer)]
    shown = [one.text for one in found if one.text.strip()]
    readable = sum(map(_is_readable, shown)) / len(shown) if shown else 0.0
    placed = ((text, place.box(box)) for text, box in words_of(found))
    words = [(text, box) for text, box in placed if box is not None]
    return TextPage(
        width=size[0],
        height=size[1],
        words=words,
        readable=readable,
        blank=under.blank and notes is None,
        scan=covered and len(words) < MIN_SCAN_WORDS,
        overlaid=covered and len(words) >= MIN_SCAN_WORDS and hidden < MIN_HIDDEN_CHARACTERS,
        notes_unread=notes == UNREAD,
    )


@contextmanager
def _layer(page: Any) -> Iterator[Any]:
    with closing(page.get_textpage()) as layer:
        count = layer.count_chars()
        if count > MAX_PAGE_CHARACTERS:
            raise LimitExceededError(
                f"A page has {count} characters; at most {MAX_PAGE_CHARACTERS} are read. Split it, "
                "or pass it as an image."
            )
        yield layer


def _is_readable(text: str) -> bool:
    return text == SOFT_HYPHEN or (
        text != "\ufffd"
        and unicodedata.category(text) not in ("Cc", "Co", "Cs")
        and not is_noncharacter(text)
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

    def box(self, box: Rectangle) -> Box | None:
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
