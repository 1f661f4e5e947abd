"""Lines and reading order from the boxes of words alone, for formats without them.

A line is a chain of words, each the nearest to the right of the one before, level with it and not
far from it; so lines may lean, and the lines of two columns or cells never join. Pages are then cut
into columns of running text, and what is left is read row by row. All of it is decided by the
boxes; the same boxes always get the same answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from hushdoc import arguments
from hushdoc.document.document import Document, required
from hushdoc.document.page import Box, Page, Word, union
from hushdoc.reading import directions

LINE_GAP = 1.2
"""Words of one line are at most this far apart, in heights of the higher one."""

LEVEL = 0.5
"""They overlap by at least this share of the lower one's height."""

GUTTER = 1.0
"""Columns are at least this far apart, in heights of a usual word."""

MIN_COLUMN_LINES, MIN_LINE_WORDS, MIN_FILL = 3, 3.0, 0.5
"""A column of running text has so many lines, so many words a line at the median, and its lines
fill this share of its width at the median; labels and values side by side do not, and are read
row by row."""

MAX_CUTS = 64
"""Cuts inside one another; past them a block is read row by row."""

_CANDIDATES = 32
"""Candidates to the right that are compared in each stripe of the page; any others overlap."""

_LEAST_HEIGHT = 1e-6
"""Of a usual word, in pixels: by a smaller one the number of a stripe may be infinite."""

_REACH = 2
"""Stripes above and below in which a level word may have its middle."""


def with_segments(document: Document) -> Document:
    """Returns the document with a segment for every word of the pages that have none.

    What models trained with the boxes of segments need. The order of the words stays, and pages on
    which any word has a segment are left as they are.
    """
    pages = tuple(
        page if any(word.segment is not None for word in page.words) else _segmented(page)
        for page in required(document).pages
    )
    return replace(document, pages=pages)


def reading_order(page: Page) -> tuple[int, ...]:
    """Returns the numbers of a page's words in reading order.

    Decided by the boxes and the direction of the script. The page's segments are not asked, and its
    own order only between words of one box, as some formats have them: they stay in it.
    """
    arguments.instance(page, Page, what="The page", advice="Pass one of a document's `pages`.")
    return tuple(index for line in _read(page) for index in line)


def in_reading_order(document: Document) -> Document:
    """Returns the document with every page's words in reading order, and segments as lines.

    Its own order and segments are not asked.

    Example:
        >>> document = Document.from_words(
        ...     ["below", "right", "left"],
        ...     [(10, 50, 60, 70), (70, 10, 120, 30), (10, 10, 60, 30)],
        ...     width=200,
        ...     height=100,
        ... )
        >>> [word.text for word in in_reading_order(document).pages[0].words]
        ['left', 'right', 'below']
    """
    pages = tuple(_ordered(page) for page in required(document).pages)
    return replace(document, pages=pages)


def _segmented(page: Page) -> Page:
    numbers: dict[int, int] = {}
    for number, line in enumerate(_read(page)):
        for index in line:
            numbers[index] = number
    words = tuple(replace(word, segment=numbers[index]) for index, word in enumerate(page.words))
    return replace(page, words=words)


def _ordered(page: Page) -> Page:
    words = tuple(
        replace(page.words[index], segment=number)
        for number, line in enumerate(_read(page))
        for index in line
    )
    return replace(page, words=words)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """A chain of words, by their numbers on the page, and the box around them."""

    words: tuple[int, ...]
    box: Box


def _read(page: Page) -> list[tuple[int, ...]]:
    """Returns the page's lines in reading order, each the numbers of its words in order."""
    if not page.words:
        return []
    # Ties go to the word with the lower number. From here on words are numbered by their boxes, so
    # that no tie asks for the page's own order, except between words of one box.
    places = sorted(range(len(page.words)), key=lambda index: _corner(page.words[index].box))
    words = [page.words[index] for index in places]
    usual = _usual_height(words)
    lines = [
        _Line(words=chain, box=union(words[index].box for index in chain))
        for chain in _chains(words, usual)
    ]
    leftwards = directions.balance(word.text for word in words) > 0
    found = []
    for line in _blocks(lines, usual, leftwards, MAX_CUTS):
        texts = [words[index].text for index in line.words]
        order = directions.from_first(texts, leftwards=directions.balance(texts) > 0)
        found.append(tuple(places[line.words[place]] for place in order))
    return found


def _corner(box: Box) -> tuple[float, float, float, float]:
    return box.y0, box.x0, box.y1, box.x1


def _usual_height(words: Sequence[Word]) -> float:
    heights = [word.box.y1 - word.box.y0 for word in words]
    return max(_LEAST_HEIGHT, median([height for height in heights if height > 0] or [1.0]))


def _chains(words: Sequence[Word], usual: float) -> Iterator[tuple[int, ...]]:
    """Yields the words of each line from left to right, by the nearest to the right of each."""
    stripes: dict[int, list[tuple[float, int]]] = {}
    for index, word in enumerate(words):
        stripes.setdefault(_stripe(word.box, usual), []).append((word.box.x0, index))
    for stripe in stripes.values():
        stripe.sort()
    wanted = sorted(
        (gap, index, right)
        for index, word in enumerate(words)
        for gap, right in _to_the_right(index, word.box, words, stripes, usual)
    )
    follower: dict[int, int] = {}
    led: set[int] = set()
    for _, index, right in wanted:  # the closest pairs first; a word has one neighbour a side
        if index not in follower and right not in led:
            follower[index] = right
            led.add(right)
    for index in range(len(words)):
        if index in led:
            continue
        chain = [index]
        while chain[-1] in follower:
            chain.append(follower[chain[-1]])
        yield tuple(chain)


def _stripe(box: Box, usual: float) -> int:
    return int((box.y0 + box.y1) / 2 / usual)


def _to_the_right(
    index: int,
    box: Box,
    words: Sequence[Word],
    stripes: dict[int, list[tuple[float, int]]],
    usual: float,
) -> list[tuple[float, int]]:
    """Returns the nearest level word to the right with its distance, if it is near enough."""
    best: list[tuple[float, int]] = []
    middle = _stripe(box, usual)
    for number in range(middle - _REACH, middle + _REACH + 1):
        stripe = stripes.get(number, [])
        # A follower starts right of this word's start; ties are broken by the words' numbers.
        first = bisect_left(stripe, (box.x0, index + 1))
        for _, other in stripe[first : first + _CANDIDATES]:
            gap = _distance(box, words[other].box)
            if gap is not None:
                best.append((max(0.0, gap), other))
                break
    return [min(best)] if best else []


def _distance(left: Box, right: Box) -> float | None:
    """Returns how far apart two words are across, or None where they can't be neighbours."""
    heights = left.y1 - left.y0, right.y1 - right.y0
    shared = min(left.y1, right.y1) - max(left.y0, right.y0)
    if shared < LEVEL * min(heights) or right.x1 <= left.x0:
        return None
    gap = right.x0 - left.x1
    # Words that lie over one another by half are no neighbours.
    if gap > LINE_GAP * max(heights) or -gap > LEVEL * min(left.x1 - left.x0, right.x1 - right.x0):
        return None
    return gap


def _blocks(lines: Sequence[_Line], usual: float, leftwards: bool, cuts: int) -> Iterator[_Line]:
    """Yields lines in reading order: columns of running text one by one, all else by rows."""
    if cuts and len(lines) >= 2 * MIN_COLUMN_LINES:
        columns = _columns(lines, usual)
        if len(columns) > 1:
            for column in reversed(columns) if leftwards else columns:
                yield from _blocks(column, usual, leftwards, cuts - 1)
            return
        above, below = _halves(lines)
        if below:
            yield from _blocks(above, usual, leftwards, cuts - 1)
            yield from _blocks(below, usual, leftwards, cuts - 1)
            return
    yield from _rows(lines, leftwards)


def _columns(lines: Sequence[_Line], usual: float) -> list[list[_Line]]:
    """Returns the columns of a block, from the left; one where it is no running text."""
    columns: list[list[_Line]] = []
    edge = 0.0
    for line in sorted(lines, key=lambda line: (line.box.x0, line.words)):
        if not columns or line.box.x0 - edge >= GUTTER * usual:
            columns.append([])
        columns[-1].append(line)
        edge = max(edge, line.box.x1)
    return columns if all(map(_is_running_text, columns)) else [list(lines)]


def _is_running_text(column: Sequence[_Line]) -> bool:
    if len(column) < MIN_COLUMN_LINES:
        return False
    around = union(line.box for line in column)
    fill = median(line.box.x1 - line.box.x0 for line in column)
    words = median(len(line.words) for line in column)
    return words >= MIN_LINE_WORDS and fill >= MIN_FILL * (around.x1 - around.x0)


def _halves(lines: Sequence[_Line]) -> tuple[list[_Line], list[_Line]]:
    """Returns the lines above and below the widest clear stripe across; none below without one."""
    ordered = sorted(lines, key=lambda line: (line.box.y0, line.words))
    widest, place, edge = 0.0, 0, ordered[0].box.y1
    for number, line in enumerate(ordered):
        if number and line.box.y0 - edge > widest:
            widest, place = line.box.y0 - edge, number
        edge = max(edge, line.box.y1)
    return (ordered[:place], ordered[place:]) if place else (ordered, [])


def _rows(lines: Sequence[_Line], leftwards: bool) -> Iterator[_Line]:
    """Yields lines from the top, those of one row along the way of the writing."""
    rows: list[list[_Line]] = []
    for line in sorted(lines, key=lambda line: (line.box.y0 + line.box.y1, line.words)):
        middle = (line.box.y0 + line.box.y1) / 2
        if not rows or middle > rows[-1][0].box.y1:
            rows.append([])
        rows[-1].append(line)
    for row in rows:
        side = -1 if leftwards else 1
        yield from sorted(row, key=lambda line: (side * line.box.x0, line.words))
