"""Totals of receipts: which of the places where an amount stands say that it is the total."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np

from hushdoc.document.page import Box, Page, Word
from hushdoc_training.data.values import Characters

_AMOUNT = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_TOTAL = re.compile(r"\bt[o0a]t[a@]?l|\bttl\b")
_PART = re.compile(
    r"sub\W*t[o0]t|\bite?ms?\b|\bqty|quantity|disc|sav|point|change|exc|round\w* adj"
)
_TAX = re.compile(r"\btax|\bgst|\bvat\b")
_INCLUSIVE = re.compile(r"inc|with|after|\+")
_DUE = re.compile(r"\bam(oun)?t|\bdue\b|balance|payable|\bpa(y|id)\b|\bnett?\b|round|\bbill\b")
_GIVEN = re.compile(r"change|disc|cash|tender|card|visa|master")


def places(value: str, page: Page) -> list[range]:
    """Returns the words of each place where a total is labelled, in reading order.

    Lines that name a total come first, then those that name what is due; else it is the last place
    on the page. The same amount in any other place is an article, tax or cash.
    """
    found = _standing(value, [word.text for word in page.words])
    rows = _Rows(page.words)
    ranks = [_rank(rows.of(page.words[place[0]].box)) for place in found]
    best = max(ranks, default=0)
    if not best:
        return found[-1:]
    return [place for place, rank in zip(found, ranks, strict=True) if rank == best]


def _standing(value: str, words: Sequence[str]) -> list[range]:
    """Returns where an amount stands: as it is written, else where a word has the same number."""
    characters = Characters(words, keep=".-")
    found = [place.words for place in characters.places(value) if place.apart]
    amount = next(_amounts(value), None)
    if found or amount is None:
        return found
    same = (number for number, word in enumerate(words) if amount in _amounts(word))
    return [range(number, number + 1) for number in same]


def _amounts(text: str) -> Iterator[Decimal]:
    for match in _AMOUNT.finditer(text):
        yield Decimal(match[0].replace(",", ""))


class _Rows:
    """What stands side by side on a page."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._texts = [word.text.lower() for word in words]
        self._tops = np.array([word.box.y0 for word in words])
        self._bottoms = np.array([word.box.y1 for word in words])
        self._rows: dict[tuple[float, float], str] = {}

    def of(self, box: Box) -> str:
        """Returns the text of all words that stand level with a box, in lower case."""
        place = box.y0, box.y1
        if place not in self._rows:
            middle = (box.y0 + box.y1) / 2
            (level,) = np.nonzero((self._tops <= middle) & (middle <= self._bottoms))
            self._rows[place] = " ".join(self._texts[index] for index in level)
        return self._rows[place]


def _rank(row: str) -> int:
    """Returns how surely a line is one of the total.

    3 by name, 2 by what is due, 1 by the name of a part of the total, 0 otherwise.
    """
    part = _PART.search(row) or (_TAX.search(row) and not _INCLUSIVE.search(row))
    if _TOTAL.search(row) and not part:
        return 3
    if _DUE.search(row) and not _GIVEN.search(row):
        return 2
    return 1 if _TOTAL.search(row) else 0
