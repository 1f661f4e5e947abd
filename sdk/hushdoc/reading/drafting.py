"""Draft: a document while a reader fills it; every word and box is checked as it is added.

Contract: nothing leaves here but a document that passed `Document.check`; whatever is wrong with
a file is an InputError that names the word and its page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushdoc import arguments
from hushdoc.arguments import MalformedError
from hushdoc.document.document import Document
from hushdoc.document.limits import MAX_SIDE, ReadingLimits, check_word
from hushdoc.document.page import Box, Page, Word
from hushdoc.document.provenance import FileFingerprint, Source
from hushdoc.errors import (
    BoxError,
    InputError,
    LimitExceededError,
)
from hushdoc.reading import directions

SLACK = 0.01
"""A box may reach past its page by this share of the page's side, as services round and turned
lines lean over the edge; it is cut at the edge. Anything further out is an error."""

NOMINAL = 1000
"""Sides (pixels) of a page whose format has only shares of the page."""

PIXELS_PER_INCH = 200
"""Pages measured in inches or points get this many pixels an inch."""

Corners = tuple[object, object, object, object]


class Draft:
    """Pages being filled, in order; `word` and `line` add to the last page that was begun."""

    def __init__(self, *, id: str, reader: str, limits: ReadingLimits | None) -> None:
        """Begins without a page; `reader` is the name of the format."""
        self.id = arguments.text(id, what="The document's id")
        self.reader = reader
        self.limits = limits_from(limits)
        self._pages: list[Page] = []
        self._words: list[Word] = []
        self._total = 0
        self._extent = (1.0, 1.0)

    def page(
        self,
        width: object,
        height: object,
        *,
        pixels: tuple[int, int] | None = None,
        image: Path | bytes | None = None,
        frame: int = 0,
        fingerprint: FileFingerprint | None = None,
    ) -> None:
        """Begins a page of `width` x `height` in the units of its boxes, which become `pixels`."""
        self._close()
        if len(self._pages) >= self.limits.max_pages:
            raise too_many_pages(self.id, None, self.limits)
        where = f"page {len(self._pages)} of '{self.id}' ({self.reader})"
        self._extent = (side(width, of=where), side(height, of=where))
        size = pixels or (max(1, round(self._extent[0])), max(1, round(self._extent[1])))
        self._pages.append(
            Page(
                width=size[0],
                height=size[1],
                words=(),
                image=image,
                frame=frame,
                limits=None if image is None else self.limits,
                fingerprint=fingerprint,
            )
        )

    def word(self, text: object, corners: Corners | None, *, segment: int | None = None) -> None:
        """Adds a word with its box in the page's units; one of whitespace alone is left out."""
        if isinstance(text, str):
            text = text.strip()
            if not text:
                return
        where = self._where(text)
        said = check_word(text, where=where, max_characters=self.limits.max_word_characters)
        self._total += 1
        if self._total > self.limits.max_words:
            raise too_many_words(self.id, self.limits)
        self._words.append(Word(text=said, box=self._box(corners, where), segment=segment))

    def add(self, words: Iterable[Word]) -> None:
        """Adds words that have boxes in the page's units, checked as those of a file are."""
        for word in words:
            box = word.box
            self.word(word.text, (box.x0, box.y0, box.x1, box.y1), segment=word.segment)

    def line(self, text: object, corners: Corners | None, *, segment: int | None = None) -> None:
        """Adds the words of a line that has one box: each gets its share by characters."""
        if not isinstance(text, str) or len(text.split()) < 2:
            self.word(text, corners, segment=segment)
            return
        box = self._box(corners, self._where(text))
        across = self._extent[0] / self._pages[-1].width, self._extent[1] / self._pages[-1].height
        for word, share in shares(text, box):
            self.word(
                word,
                (
                    share.x0 * across[0],
                    share.y0 * across[1],
                    share.x1 * across[0],
                    share.y1 * across[1],
                ),
                segment=segment,
            )

    def document(self, source: Source | None = None) -> Document:
        """Returns the checked document; EmptyDocumentError where it has no word."""
        self._close()
        document = Document(
            id=self.id, pages=tuple(self._pages), source=source or Source(reader=self.reader)
        )
        document.check()
        return document

    @property
    def has_words(self) -> bool:
        """Whether any page has a word so far."""
        return self._total > 0

    def words(self) -> tuple[Word, ...]:
        """Returns the words of the last page so far."""
        return tuple(self._words)

    def _close(self) -> None:
        if self._pages:
            self._pages[-1] = replace(self._pages[-1], words=tuple(self._words))
        self._words = []

    def _where(self, text: object) -> str:
        return (
            f"word {len(self._words)} ({arguments.short_repr(text)}) on page "
            f"{len(self._pages) - 1} of '{self.id}' ({self.reader})"
        )

    def _box(self, corners: Corners | None, where: str) -> Box:
        if not self._pages:
            raise InputError(f"The {where} comes before any page. Correct the file.")
        if corners is None:
            raise BoxError(f"The {where} has no box. Leave the word out, or give its box.")
        page = self._pages[-1]
        across, down = page.width / self._extent[0], page.height / self._extent[1]
        try:
            values = [number(value) for value in corners]
        except (MalformedError, OverflowError) as error:
            raise BoxError(
                f"The box of the {where} is {arguments.short_repr(corners)}: {error}. Expected "
                "four numbers."
            ) from error
        box = Box(
            x0=_near(values[0] * across, page.width),
            y0=_near(values[1] * down, page.height),
            x1=_near(values[2] * across, page.width),
            y1=_near(values[3] * down, page.height),
        )
        problem = box.problem(width=page.width, height=page.height)
        if problem is not None:
            raise BoxError(
                f"The box {box.to_list()} (in pixels) of the {where} {problem}. Correct the file, "
                "or the page size in it."
            )
        return box


def _near(value: float, extent: float) -> float:
    """Returns a coordinate, moved to the page's edge where it lies but a little outside."""
    slack = max(2.0, SLACK * extent)
    if -slack <= value < 0:
        return 0.0
    if extent < value <= extent + slack:
        return float(extent)
    return value


def number(value: object) -> float:
    """Returns a JSON number; MalformedError for others, OverflowError past any float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MalformedError(f"{arguments.short_repr(value)} is no number")
    return float(value)


def shares(text: str, box: Box) -> Iterator[tuple[str, Box]]:
    """Yields the words of a line with their parts of its box; tall boxes are cut across.

    Words of scripts that are written from right to left have their parts from the right.
    """
    upright = box.y1 - box.y0 > 1.5 * (box.x1 - box.x0)
    first, extent = (box.y0, box.y1 - box.y0) if upright else (box.x0, box.x1 - box.x0)
    text = text.strip()
    words = text.split()
    order = range(len(words)) if upright else directions.from_left(words)
    if any(place != number for number, place in enumerate(order)):
        text = " ".join(words[place] for place in order)  # as it stands there, from the left
    parts: dict[int, Box] = {}
    stop = 0
    for number in order:
        start = text.index(words[number], stop)
        stop = start + len(words[number])
        low = first + extent * start / len(text)
        # The last share ends where the box ends, whatever was rounded.
        high = first + extent if stop == len(text) else first + extent * stop / len(text)
        parts[number] = (
            Box(x0=box.x0, y0=low, x1=box.x1, y1=high)
            if upright
            else Box(x0=low, y0=box.y0, x1=high, y1=box.y1)
        )
    for number, word in enumerate(words):
        yield word, parts[number]


def around(points: Iterable[Sequence[object]]) -> Corners:
    """Returns the corners of the upright box around points (x, y)."""
    pairs = [(number(x), number(y)) for x, y in points]
    if not pairs:
        raise MalformedError("a polygon has no points")
    across, down = [x for x, _ in pairs], [y for _, y in pairs]
    if any(math.isnan(value) for value in (*across, *down)):
        return (math.nan, math.nan, math.nan, math.nan)  # min and max would hide it
    return (min(across), min(down), max(across), max(down))


def around_polygon(polygon: Sequence[Any]) -> Corners:
    """Returns the corners of the upright box around points, or around x1, y1, x2, y2, ..."""
    if isinstance(polygon[0], Sequence):
        return around(polygon)
    return around(zip(polygon[::2], polygon[1::2], strict=True))


def side(value: object, *, of: str) -> float:
    """Returns the length of a page's side; InputError unless it is positive and up to MAX_SIDE."""
    try:
        found = number(value)
    except (MalformedError, OverflowError):
        found = math.nan
    if not 0 < found <= MAX_SIDE:
        raise InputError(
            f"A side of {of} is {arguments.short_repr(value)}; expected a positive number up to "
            f"{MAX_SIDE}. Correct the size of the page."
        )
    return found


def limits_from(limits: object) -> ReadingLimits:
    """Returns the limits that a caller passed, by default the usual ones; else InputError."""
    advice = "Pass such as ReadingLimits(max_pages=10), or leave it out."
    what = "The argument 'limits'"
    return arguments.optional(limits, ReadingLimits, what=what, advice=advice) or ReadingLimits()


def too_many_pages(id: str, found: int | None, limits: ReadingLimits) -> LimitExceededError:
    """Returns the error for a document with more pages than are read."""
    has = f"more than {limits.max_pages}" if found is None else str(found)
    return LimitExceededError(
        f"'{id}' has {has} pages; at most {limits.max_pages} are read. Split it, or raise "
        "ReadingLimits.max_pages."
    )


def too_many_words(id: str, limits: ReadingLimits) -> LimitExceededError:
    """Returns the error for a document with more words than are read."""
    return LimitExceededError(
        f"'{id}' has more than {limits.max_words} words. Split it, or raise "
        "ReadingLimits.max_words."
    )


def get(data: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a key in camelCase or snake_case, or None."""
    if name in data:
        return data[name]
    return data.get(
        "".join(f"_{character.lower()}" if character.isupper() else character for character in name)
    )
