"""Values in the words of a page: where a transcribed value stands, though it was written otherwise.

Annotations that give a field's value as a string do not say where it stands. Values and words are
compared by their letters and digits alone, in lower case and across words and lines; so spaces,
punctuation and case may differ. Signs on a letter, which are the vowels of many scripts, count as
letters. Where that fails, the closest run of words is offered if few characters differ (Myers 1999,
"A fast bit-vector algorithm for approximate string matching based on dynamic programming", JACM
46(3)).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_DIFFERENCE = 0.15
"""At most this share of a value's characters may differ where it is found only approximately."""

MIN_CHARACTERS = 8
"""Shorter values are not searched approximately: other text is too like them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a value stands.

    Attributes:
        words: The first of its words, and one past the last.
        whole: Whether the value fills its words; else they have characters of their own, such as
            those of "Date:" in "Date:25/12/2018".
        apart: Whether it ends inside no number and no run of letters, as 9.00 does in 19.00.
    """

    words: range
    whole: bool
    apart: bool


class Characters:
    """The comparable characters of a page's words, with the word that each is of."""

    def __init__(self, words: Sequence[str], *, keep: str = "") -> None:
        """Takes the words in reading order; `keep` names characters besides letters and digits."""
        self._words = list(map(_lower, words))
        self._keep = keep
        self._places = [
            (number, index)
            for number, word in enumerate(self._words)
            for index, character in enumerate(word)
            if _counts(character, keep)
        ]
        self.text = "".join(self._words[number][index] for number, index in self._places)

    def of(self, value: str) -> str:
        """Returns the comparable characters of a value."""
        return comparable(value, keep=self._keep)

    def places(self, value: str) -> list[Place]:
        """Returns where a value stands, in reading order."""
        wanted = self.of(value)
        return [self._place(start, start + len(wanted)) for start in _starts(self.text, wanted)]

    def closest(self, value: str) -> range | None:
        """Returns the run of words that a value differs from least, if it is close enough."""
        wanted = self.of(value)
        if len(wanted) < MIN_CHARACTERS:
            return None
        distance, stop = _closest_end(wanted, self.text)
        if distance > MAX_DIFFERENCE * len(wanted):
            return None
        _, length = _closest_end(wanted[::-1], self.text[:stop][::-1])
        return self._place(stop - length, stop).words if length else None

    def _place(self, start: int, stop: int) -> Place:
        first, last = self._places[start], self._places[stop - 1]
        before = start > 0 and self._places[start - 1][0] == first[0]
        after = stop < len(self._places) and self._places[stop][0] == last[0]
        return Place(
            words=range(first[0], last[0] + 1),
            whole=not before and not after,
            apart=not (before and self._joined(start)) and not (after and self._joined(stop)),
        )

    def _joined(self, place: int) -> bool:
        """Returns whether a number or a run of letters goes on from one character to the next."""
        (number, left), (_, right) = self._places[place - 1], self._places[place]
        word = self._words[number]
        a, b, between = word[left], word[right], word[left + 1 : right]
        if (a.isalpha() or _is_sign(a)) and (b.isalpha() or _is_sign(b)):
            return not between
        if a == "-" and b.isdigit():  # a sign, where signs are kept
            return True
        numeric = [c.isdigit() or c in ".," for c in (a, b)]
        return all(numeric) and all(c in ".," for c in between)


def first_place(answers: Iterable[str], words: Sequence[str]) -> tuple[int, ...]:
    """Returns the words of the first place where an answer stands, whole where it can be.

    Empty where no answer stands there.

    Example:
        >>> first_place(["12.50"], ["Total:", "112.50", "12.50"])
        (2,)
    """
    characters = Characters(words)
    found = [place for answer in answers for place in characters.places(answer)]
    for fits in (lambda place: place.whole, lambda place: place.apart):
        for place in filter(fits, found):
            return tuple(place.words)
    return ()


def comparable(text: str, *, keep: str = "") -> str:
    """Returns a text's letters and digits in lower case, and characters that are kept besides."""
    return "".join(character for character in _lower(text) if _counts(character, keep))


def _lower(text: str) -> str:
    return text.casefold().replace(
        "i\u0307", "i"
    )  # of the Turkish capital, which has its dot apart


def _counts(character: str, keep: str) -> bool:
    return character.isalnum() or character in keep or _is_sign(character)


def _is_sign(character: str) -> bool:
    """Returns whether a character stands on or below the letter before it."""
    return unicodedata.category(character)[0] == "M"


def _starts(text: str, wanted: str) -> Iterator[int]:
    start = text.find(wanted) if wanted else -1
    while start >= 0:
        yield start
        start = text.find(wanted, start + len(wanted))


def _closest_end(pattern: str, text: str) -> tuple[int, int]:
    """Returns the least edit distance of a pattern from any part of a text, and where that ends.

    Of several ends the first. Names are those of Myers' figure 3; integers stand for bit vectors.
    """
    size = len(pattern)
    every = (1 << size) - 1
    equal: dict[str, int] = {}
    for index, character in enumerate(pattern):
        equal[character] = equal.get(character, 0) | 1 << index
    plus, minus, score = every, 0, size
    best, end = size, 0
    for index, character in enumerate(text):
        same = equal.get(character, 0)
        vertical = same | minus
        across = (((same & plus) + plus) ^ plus) | same
        more = minus | (every & ~(across | plus))
        less = plus & across
        score += (more >> (size - 1) & 1) - (less >> (size - 1) & 1)
        more, less = (more << 1) & every, (less << 1) & every
        plus = less | (every & ~(vertical | more))
        minus = more & vertical
        if score < best:
            best, end = score, index + 1
    return best, end
