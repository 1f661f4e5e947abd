"""Box, Word and Page: what a document is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hushdoc.arguments import short_repr
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import FileFingerprint
from hushdoc.errors import BoxError

BOX_SCALE = 1000
"""Layout models read boxes on a page of 1000 x 1000 units, whatever its pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """An axis-parallel rectangle in page pixels, origin at the top left.

    Example:
        >>> Box(x0=10, y0=20, x1=110, y1=40).normalized(width=200, height=400)
        (50, 50, 550, 100)
    """

    x0: float
    y0: float
    x1: float
    y1: float

    def problem(self, *, width: float, height: float) -> str | None:
        """Returns what is wrong with this box on such a page, or None."""
        values = (self.x0, self.y0, self.x1, self.y1)
        try:
            finite = all(math.isfinite(value) for value in values)
        except (TypeError, OverflowError):  # no number at all, or one that no float holds
            finite = False
        if not finite:
            return "has a coordinate that is not a finite number"
        if self.x1 < self.x0 or self.y1 < self.y0:
            return "has its corners swapped"
        if self.x0 < 0 or self.y0 < 0 or self.x1 > width or self.y1 > height:
            return f"lies outside its page of {width:g} x {height:g} pixels"
        return None

    def normalized(self, *, width: float, height: float) -> tuple[int, int, int, int]:
        """Returns (x0, y0, x1, y1) as integers from 0 to 1000, on a page of so many pixels.

        Raises:
            BoxError: The page has no area, or a coordinate is no finite number.
        """
        try:
            return (
                _scaled(self.x0, width),
                _scaled(self.y0, height),
                _scaled(self.x1, width),
                _scaled(self.y1, height),
            )
        except (ArithmeticError, TypeError, ValueError) as error:
            raise BoxError(
                f"The box {short_repr(self.to_list())} has no place on a page of "
                f"{short_repr(width)} x {short_repr(height)} pixels: {error}. Expected finite "
                "numbers and a page with an area."
            ) from error

    def to_list(self) -> list[float]:
        """Returns [x0, y0, x1, y1]."""
        return [self.x0, self.y0, self.x1, self.y1]


def _scaled(value: float, extent: float) -> int:
    return min(BOX_SCALE, max(0, int(BOX_SCALE * value / extent)))


def union(boxes: Iterable[Box]) -> Box:
    """Returns the smallest box around all of them; ValueError where there is none."""
    members = list(boxes)
    if not members:
        raise ValueError("The union of no boxes is not a box.")
    return Box(
        x0=min(box.x0 for box in members),
        y0=min(box.y0 for box in members),
        x1=max(box.x1 for box in members),
        y1=max(box.y1 for box in members),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """One word as a reader or OCR found it.

    Attributes:
        text: The word, without surrounding whitespace.
        box: Where it stands, in page pixels.
        segment: Number of the text block or line it belongs to on its page, if known; words of
            one segment share a layout box in models that were trained with segment boxes.
    """

    text: str
    box: Box
    segment: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One page: its size in pixels, its words in reading order, and its image if there is one.

    Attributes:
        width: In pixels, as the page is viewed: a rotated photo or PDF page is upright.
        height: In pixels.
        words: In reading order.
        image: The file with the page's image, an image or a PDF file: its path, or its content
            where the document was opened from memory or with a password. It is not shown by repr.
        frame: Which of that file's images or pages it is; `hushdoc.reading.page_image` draws it.
        limits: How much of that file may be read to draw it; None for those that are usual.
        fingerprint: Of the file that was read; another one in its place is not drawn.
        reader: Where that file was read, "here" or in a "process", and the page is drawn.
    """

    width: int
    height: int
    words: tuple[Word, ...]
    image: Path | bytes | None = field(default=None, repr=False)
    frame: int = 0
    limits: ReadingLimits | None = field(default=None, repr=False, compare=False)
    fingerprint: FileFingerprint | None = field(default=None, repr=False, compare=False)
    reader: str = field(default="here", repr=False, compare=False)

    def __post_init__(self) -> None:
        """Drops a fingerprint of another file."""
        if self.fingerprint is not None and self.fingerprint.path != self.image:
            object.__setattr__(self, "fingerprint", None)

    def segment_boxes(self) -> list[Box]:
        """Returns, for every word, the box of its segment (its own where it has none)."""
        members: dict[int, list[Box]] = {}
        for word in self.words:
            if word.segment is not None:
                members.setdefault(word.segment, []).append(word.box)
        boxes = {segment: union(parts) for segment, parts in members.items()}
        return [word.box if word.segment is None else boxes[word.segment] for word in self.words]
