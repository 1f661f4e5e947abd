"""Words of a text layer, by where each character stands and which way it is written.

PDFium guesses spaces and line ends for the page as a whole; here two characters in a row are one
word if the second begins where the first ends, along the first one's own baseline.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from hushdoc.reading.pdf_characters import (
    GUESS,
    SOFT_HYPHEN,
    Character,
    Rectangle,
    grown,
    is_seen,
)

SPACE = 0.1
"""A gap of so many font sizes more than between the letters of its line is a space; in print a
space has 0.25."""

GUESSED_SPACE = 0.25
"""Spaces that PDFium adds inside a text object are believed where characters overlap by less."""

FAR = 2.0
"""A gap of so many font sizes ends a line."""

MOST_TRACKING, ALIKE, ALIKE_SHARE = 0.3, 0.05, 0.6
"""Letters are set wide or close where so large a share of the gaps on their line, up to so many
font sizes each, differ by so little from the median."""

BEGIN, MARK_BEGIN = 0.1, -0.5
"""Where a character begins at the least, in font sizes from the beginning of the one before it, or
halfway where that ends sooner, and where accents do, which are drawn over others."""

SHIFT, SCRIPT_SHIFT = 0.3, 0.7
"""How far, in font sizes of the larger one, the baselines of a word's characters may be apart, and
those of sub- and superscripts, which are smaller than the rest of their word."""

SCRIPT_SIZE = 0.9
"""Characters below this share of another's size are sub- or superscripts of it."""

ANGLE = math.cos(math.radians(15))
"""Characters of a word are turned against one another by less than this (cosine)."""


def words_of(found: Iterable[Character]) -> Iterator[tuple[str, Rectangle]]:
    """Yields the words that characters make in their order, without invisible characters."""
    for line in _lines(_as_written(found)):
        tracking = _tracking(line)
        run: list[Character] = []
        for step in line:
            guessed = step.guessed and step.gap > -GUESSED_SPACE and tracking < SPACE
            wide = guessed or step.gap > tracking + SPACE
            if run and wide:
                yield from _word(run)
                run = []
            run.append(step.character)
        yield from _word(run)


def _as_written(found: Iterable[Character]) -> Iterator[Character]:
    """Yields text objects that PDFium sorts by where they stand as upside-down text goes on."""
    run: list[Character] = []
    for character in found:
        if run and not _is_before(character, run[-1]):
            yield from reversed(run)
            run.clear()
        run.append(character)
    yield from reversed(run)


def _is_before(one: Character, other: Character) -> bool:
    """Returns whether a character of another text object ends where the other begins."""
    style = one.style
    if style is None or style.across > 0 or style is other.style:
        return False
    if _is_leftwards(one.text) or _is_leftwards(other.text):
        return False
    gap = _gap(one, other)
    return gap is not None and abs(gap) <= SPACE


@dataclass(slots=True)
class _Step:
    """A character of a line, how far it is from the one before, and whether PDFium adds a space."""

    character: Character
    gap: float
    guessed: bool


def _lines(found: Iterable[Character]) -> Iterator[list[_Step]]:
    """Yields the characters that go on along one baseline, with whitespace as endless gaps."""
    line: list[_Step] = []
    space = guessed = False
    for character in found:
        if not is_seen(character.text):
            guessed |= character.text == GUESS
            space |= character.text.isspace()
            continue
        last = line[-1].character if line else None
        if last is not None and _is_double(last, character):
            continue
        gap = None if last is None else _gap(last, character)
        if last is not None and (gap is None or gap > FAR):
            yield line
            line = []
        same = last is not None and last.style is character.style
        wide = math.inf if gap is None or space else gap
        line.append(_Step(character, wide, guessed and same))
        space = guessed = False
    if line:
        yield line


def _tracking(line: Sequence[_Step]) -> float:
    """Returns how far apart the letters of a line are set, in font sizes; 0 where that varies."""
    inside = [
        step.gap
        for last, step in pairwise(line)
        if step.gap < MOST_TRACKING and (last.character.text + step.character.text).isalnum()
    ]
    if len(inside) < 4:
        return 0.0
    middle = median(inside)
    alike = sum(abs(gap - middle) <= ALIKE for gap in inside)
    return middle if alike >= ALIKE_SHARE * len(inside) else 0.0


def _word(run: Sequence[Character]) -> Iterator[tuple[str, Rectangle]]:
    box: Rectangle | None = None
    for character in run:
        box = grown(box, character.box)
    if box is not None:
        yield "".join("-" if one.text == SOFT_HYPHEN else one.text for one in run), box


def _gap(one: Character, other: Character) -> float | None:
    """Returns the gap between two characters in a row in font sizes; None on different lines."""
    style, follower = one.style, other.style
    # After a hyphen the next line begins, and a box never spans two.
    if style is None or follower is None or one.text == SOFT_HYPHEN:
        return None
    if style.across * follower.across + style.up * follower.up < ANGLE:
        return None
    x, y = other.x - one.x, other.y - one.y
    if x == y == 0 and style is follower:  # of one ligature, or of a text in place of others
        return 0.0
    size = max(style.size, follower.size)
    along, aside = x * style.across + y * style.up, abs(y * style.across - x * style.up)
    is_script = min(style.size, follower.size) < SCRIPT_SIZE * size
    if aside > (SCRIPT_SHIFT if is_script else SHIFT) * size:
        return 0.0 if _is_stacked(one, other, size) else None
    gap = along - one.advance
    if _is_leftwards(one.text) or _is_leftwards(other.text):
        return max(gap, -along - other.advance) / size
    is_mark = _is_mark(one.text) or _is_mark(other.text)
    return gap / size if along >= (MARK_BEGIN * size if is_mark else _least(one, size)) else None


def _is_double(one: Character, other: Character) -> bool:
    """Returns whether a character is the one before it once more, as some print bold."""
    if one.text != other.text or one.style is None:
        return False
    return 0 < math.hypot(other.x - one.x, other.y - one.y) < _least(one, one.style.size)


def _least(one: Character, size: float) -> float:
    """Returns where a character begins at the least that follows one, which may be narrow."""
    return min(BEGIN * size, one.advance / 2) if one.advance > 0 else BEGIN * size


def _is_mark(text: str) -> bool:
    return not text.isascii() and unicodedata.category(text) in ("Mn", "Me", "Mc", "Sk", "Lm")


def _is_leftwards(text: str) -> bool:
    return not text.isascii() and unicodedata.bidirectional(text) in ("R", "AL")


def _is_stacked(one: Character, other: Character, size: float) -> bool:
    """Returns whether a character stands below the one before it, as Chinese may be written."""
    if one.box is None or other.box is None:
        return False
    if not all(unicodedata.east_asian_width(text) in "WF" for text in (one.text, other.text)):
        return False
    beside = abs(one.box[0] + one.box[2] - other.box[0] - other.box[2]) / 2
    return beside <= SHIFT * size and abs(one.box[1] - other.box[3]) <= SHIFT * size
