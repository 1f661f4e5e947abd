"""Directions of writing: which way words go, and how those of a line stand from left to right.

What the Unicode Bidirectional Algorithm (UAX 9) says of characters is applied to whole words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby


def balance(texts: Iterable[str]) -> int:
    """Returns how many characters more are written from right to left than from left to right."""
    found = 0
    for text in texts:
        for character in text[:64]:
            if character.isascii():
                found -= character.isalpha()
            else:
                side = unicodedata.bidirectional(character)
                found += (side in ("R", "AL")) - (side == "L")
    return found


def from_left(words: Sequence[str]) -> list[int]:
    """Returns the numbers of a line's words from the left; they are in the order of reading.

    A line goes to the left if its first word or most of it does. Neighbours that go the other way
    than the line stand in their own order, as a name in Latin letters in a line of Hebrew does; a
    number goes the way of the word before it.
    """
    own = _own_ways(words)
    leftwards = balance(words) > 0 or next((way for way in own if way is not None), False)
    return _turned(words, own, leftwards)


def from_first(words: Sequence[str], *, leftwards: bool) -> list[int]:
    """Returns the numbers of a line's words in the order of reading; they are from the left.

    Neighbours that go the other way than the line are read in their own order. Of "No 77" beside
    Hebrew nothing tells whether the number was first; it goes the way of the word on its left.
    """
    if not leftwards and all(map(str.isascii, words)):
        return list(range(len(words)))
    return _turned(words, _own_ways(words), leftwards)


def _own_ways(words: Sequence[str]) -> list[bool | None]:
    """Returns of each word whether it goes to the left; None of numbers and signs."""
    return [None if (found := balance([word])) == 0 else found > 0 for word in words]


def _turned(words: Sequence[str], own: Sequence[bool | None], leftwards: bool) -> list[int]:
    """Returns words of a line in the other of two orders: of reading, and from the left."""
    ways = _ways(words, own, leftwards)
    runs = [list(run) for _, run in groupby(range(len(words)), key=ways.__getitem__)]
    ordered = reversed(runs) if leftwards else runs
    return [place for run in ordered for place in (reversed(run) if ways[run[0]] else run)]


def _ways(words: Sequence[str], own: Sequence[bool | None], leftwards: bool) -> list[bool]:
    """Returns of each word whether it goes to the left; signs alone go as both neighbours do."""
    ahead = [leftwards] * (len(words) + 1)
    for place in range(len(words) - 1, -1, -1):
        way = own[place]
        ahead[place] = ahead[place + 1] if way is None else way
    ways: list[bool] = []
    for word, way, after in zip(words, own, ahead[1:], strict=True):
        before = ways[-1] if ways else leftwards
        if way is None:
            is_number = any(map(str.isdigit, word))
            way = before if is_number or before == after else leftwards
        ways.append(way)
    return ways
