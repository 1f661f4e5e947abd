"""Sheet: a page while it is laid out: its words, its lines and what every text means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from hushdoc_training.invented import fonts

Colour = tuple[int, int, int]
Role = Literal["header", "question", "answer"]
Align = Literal["left", "right", "center"]
BLACK: Colour = (20, 20, 20)
NOTHING = -1
"""The segment number of a text without words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Face:
    """How a piece of text is set; size is in pixels."""

    family: str
    size: int
    bold: bool = False
    italic: bool = False
    colour: Colour = BLACK

    @property
    def font(self) -> str:
        """The font's name for `fonts`."""
        regular, bold, italic = fonts.FAMILIES[self.family]
        return bold if self.bold else italic if self.italic else regular

    def strong(self) -> Face:
        """Returns the bold face."""
        return replace(self, bold=True)

    def sized(self, size: float) -> Face:
        """Returns this face at another size."""
        return replace(self, size=round(size))

    def wide(self, text: str) -> int:
        """Returns the width of a line of text in pixels."""
        words = text.split()
        blank = fonts.space(self.font, self.size)
        return sum(
            fonts.measure(fonts.face_for(self.font, word), self.size, word).advance + blank
            for word in words
        ) - (blank if words else 0)


class Ink(NamedTuple):
    """One word as it will be drawn, and the box of its ink."""

    text: str
    x: int
    y: int
    font: str
    size: int
    colour: Colour
    box: tuple[int, int, int, int]
    segment: int
    turned: bool = False


class Mark(NamedTuple):
    """Anything drawn that is not a word: line, rect, ellipse, dots or curve."""

    shape: Literal["line", "rect", "ellipse", "dots", "curve"]
    points: tuple[int, ...]
    colour: Colour = BLACK
    fill: Colour | None = None
    thick: int = 1


class Block(NamedTuple):
    """Where a text was placed; y1 is where the next line may begin."""

    x0: int
    y0: int
    x1: int
    y1: int
    segment: int


class Segment(NamedTuple):
    """What one piece of text means: its part in a form and its field, if any."""

    role: Role | None
    field: str | None


@dataclass(kw_only=True, slots=True)
class Sheet:
    """A page in the making. It lives inside one call that lays out one document.

    Pairs hold the segments of a question and of its answer, NOTHING where it is blank; rows those
    that describe one item of a table, its description first; cells those of a row's head, a
    column's head and the cell where they meet.
    """

    width: int
    height: int
    margin: int = 40
    by_line: bool = False  # whether running text is a segment a line, not one a block
    paper: Colour = (255, 255, 255)
    inks: list[Ink] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    cells: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Where text begins."""
        return self.margin

    @property
    def right(self) -> int:
        """Where text ends."""
        return self.width - self.margin

    @property
    def bottom(self) -> int:
        """Where the last line may end."""
        return self.height - self.margin

    def segment(self, role: Role | None, field: str | None) -> int:
        """Opens a segment and returns its number."""
        self.segments.append(Segment(role, field))
        return len(self.segments) - 1

    def put(
        self,
        text: str,
        x: int,
        y: int,
        face: Face,
        *,
        width: int | None = None,  # where lines break, counted from x
        align: Align = "left",
        lines: int = 99,  # what does not fit in so many is left out
        indent: int = 0,  # how much further right the first line begins
        leading: float = 1.3,  # distance of the lines, in sizes
        role: Role | None = None,
        field: str | None = None,
    ) -> Block:
        """Sets a text as one segment, with its first line's top at y, and returns where it stands.

        A newline begins a new line. Without width, x is the edge or the middle that the text is
        aligned to.
        """
        if width is None:
            width = {"left": self.right - x, "right": x - self.left, "center": 0}[align]
            if align == "right":
                x -= width
            elif align == "center":
                width = 2 * min(x - self.left, self.right - x)
                x -= width // 2
        rows = _broken(text, face, width, indent)[:lines]
        step = max(1, round(face.size * leading))
        number, far = NOTHING, x
        for row_number, (words, length) in enumerate(rows):
            if not words:
                continue
            if number == NOTHING or (self.by_line and role is None and field is None):
                number = self.segment(role, field)
            start = x + (indent if row_number == 0 else 0)
            if align != "left":
                start += (width - length) // (1 if align == "right" else 2)
            baseline = y + row_number * step + round(face.size * 0.95)
            far = max(far, self._row(words, start, baseline, face, number))
        return Block(x, y, far, y + max(1, len(rows)) * step, number)

    def _row(self, words: list[_Sized], x: int, y: int, face: Face, segment: int) -> int:
        blank = fonts.space(face.font, face.size)
        right = x
        for text, font, extent in words:
            box = (x + extent.left, y + extent.top, x + extent.right, y + extent.bottom)
            self.inks.append(Ink(text, x, y, font, face.size, face.colour, box, segment))
            right = x + extent.advance
            x = right + blank
        return right

    def turned(self, text: str, x: int, y: int, face: Face) -> None:
        """Sets a text that reads upwards: its words run from y to the top of the page."""
        number = self.segment(None, None)
        for word in text.split():
            font = fonts.face_for(face.font, word)
            extent = fonts.measure(font, face.size, word)
            box = (x + extent.top, y - extent.right, x + extent.bottom, y - extent.left)
            ink = Ink(word, x, y, font, face.size, face.colour, box, number, True)
            self.inks.append(ink)
            y -= extent.advance + fonts.space(font, face.size)

    def line(self, x0: int, y0: int, x1: int, y1: int, *, thick: int = 1) -> None:
        """Draws a line."""
        self.marks.append(Mark("line", (x0, y0, x1, y1), thick=thick))

    def dots(self, x0: int, x1: int, y: int) -> None:
        """Draws a dotted line."""
        self.marks.append(Mark("dots", (x0, y, x1, y)))

    def frame(
        self,
        x0: int,
        y0: int,
        x1: int,
        y1: int,
        *,
        thick: int = 1,
        fill: Colour | None = None,
        colour: Colour = BLACK,
    ) -> None:
        """Draws a box, filled or not; thick 0 leaves out its edge."""
        self.marks.append(Mark("rect", (x0, y0, x1, y1), colour, fill, thick))

    def ellipse(
        self,
        x0: int,
        y0: int,
        x1: int,
        y1: int,
        *,
        thick: int = 1,
        fill: Colour | None = None,
        colour: Colour = BLACK,
    ) -> None:
        """Draws an ellipse, filled or not."""
        self.marks.append(Mark("ellipse", (x0, y0, x1, y1), colour, fill, thick))

    def curve(self, points: Sequence[int], colour: Colour) -> None:
        """Draws a pen stroke through x, y, x, y, ..."""
        self.marks.append(Mark("curve", tuple(points), colour, thick=2))

    def is_free(self, x0: int, y0: int, x1: int, y1: int) -> bool:
        """Returns whether no word overlaps this rectangle."""
        return all(
            ink.box[2] < x0 or ink.box[0] > x1 or ink.box[3] < y0 or ink.box[1] > y1
            for ink in self.inks
        )

    def pair(self, question: Block, answer: Block | None) -> None:
        """Records that one text answers another, or that the answer is blank."""
        if question.segment != NOTHING:
            self.pairs.append((question.segment, answer.segment if answer else NOTHING))


class _Sized(NamedTuple):
    text: str
    font: str
    extent: fonts.Extent


def _broken(text: str, face: Face, width: int, indent: int) -> list[tuple[list[_Sized], int]]:
    """Returns the lines of a text that fit a width, each with its length."""
    base, size = face.font, face.size
    blank = fonts.space(base, size)
    rows: list[tuple[list[_Sized], int]] = []
    for paragraph in text.split("\n"):
        row: list[_Sized] = []
        length = 0
        room = width - (indent if not rows else 0)
        for word in paragraph.split():
            font = fonts.face_for(base, word)
            extent = fonts.measure(font, size, word)
            if row and length + blank + extent.advance > room:
                rows.append((row, length))
                row, length, room = [], 0, width
            length += extent.advance + (blank if row else 0)
            row.append(_Sized(word, font, extent))
        rows.append((row, length))
    return rows
