"""Random draws that depend on a key of integers alone, not on the process or earlier draws.

Contract: Draws of one key give the same draws for ever; documents are pure functions of
(seed, index, config) because every draw comes from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from hushdoc_training.invented.word_lists import word_list

_T = TypeVar("_T")
_BLOCK = 512


def generator(*key: int) -> np.random.Generator:
    """Returns the numpy generator of a key: a seed, and integers that name its use."""
    sequence = np.random.SeedSequence(entropy=key[0], spawn_key=key[1:])
    return np.random.Generator(np.random.Philox(sequence))


class Draws:
    """Reads a numpy generator in blocks, because single draws from it are slow."""

    __slots__ = ("_generator", "_units")

    def __init__(self, *key: int) -> None:
        """Opens the stream of draws of a key."""
        self._generator = generator(*key)
        self._units: Iterator[float] = iter(())

    def unit(self) -> float:
        """Returns a number in [0, 1)."""
        value = next(self._units, None)
        if value is None:
            self._units = iter(self._generator.random(_BLOCK).tolist())
            value = next(self._units)
        return value

    def flip(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self.unit() < probability

    def integer(self, low: int, high: int) -> int:
        """Returns an integer from low to high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def real(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return low + self.unit() * (high - low)

    def pick(self, items: Sequence[_T]) -> _T:
        """Returns one of the items."""
        return items[int(self.unit() * len(items))]

    def word(self, name: str) -> str:
        """Returns an entry of a word list."""
        return self.pick(word_list(name))

    def weighted(self, items: Sequence[tuple[_T, float]]) -> _T:
        """Returns one of the items, each as often as its weight says."""
        left = self.unit() * sum(weight for _, weight in items)
        for item, weight in items:
            left -= weight
            if left < 0:
                return item
        return items[-1][0]

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        """Returns the items in a random order."""
        left = list(items)
        for last in range(len(left) - 1, 0, -1):
            other = int(self.unit() * (last + 1))
            left[last], left[other] = left[other], left[last]
        return left

    def sample(self, items: Sequence[_T], count: int) -> list[_T]:
        """Returns the entries at this many different places (all of them, if there are fewer)."""
        if count * 4 > len(items):
            return self.shuffled(items)[:count]
        chosen: dict[int, None] = {}
        while len(chosen) < count:
            chosen[int(self.unit() * len(items))] = None
        return [items[place] for place in chosen]

    def digits(self, count: int) -> str:
        """Returns this many decimal digits, the first of them not zero."""
        return str(self.integer(10 ** (count - 1), 10**count - 1)) if count > 0 else ""

    def letters(self, count: int) -> str:
        """Returns this many capital letters."""
        return "".join(self.pick("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(count))
