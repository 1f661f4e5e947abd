"""Integer noise: discrete Gaussians, drawn from random bits by exact comparisons alone.

The discrete Gaussian of width s has integers z with probabilities proportional to
exp(-z^2 / (2 s^2)). A wide one is a sum of levels, z_0 + 64 z_1 + 64^2 z_2 + ..., each from a small
table, whose variances add up to s^2 exactly (Micciancio, Walter: Gaussian Sampling over the
Integers, 2017). All levels but the last have width 256, four times the distance of the multiples
that the next one fills in, so the sum's probabilities are those of the discrete Gaussian to within
a factor of 1 +- 2**-400. A table's thresholds are whole multiples of 2**-128, computed in integers:
per number and level what is drawn is within 2**-110 of that distribution, in total variation. No
float is computed: no tail is cut off where floats end, and no probability depends on a processor.

Why a Gaussian's epsilon holds for integers. Round a real number v at random to an integer z with
probabilities proportional to exp(-(z - v)^2 / (2 r^2)). For r = 4 a continuous Gaussian of variance
s^2 - 16 around an integer, rounded so, is the discrete Gaussian of width s around it to within a
factor of 1 +- 1e-130 for each outcome. So adding the latter to integers is a post-processing of
adding the former, under sampling too: `covering` says which width a noise multiplier needs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

LEAST_WIDTH = 8.0
GREATEST_WIDTH = 2.0**40

_ROUNDING = 4.0
"""Width r of the random rounding that makes integers of a continuous Gaussian."""

_BASE_BITS = 6
_LOWER = 4 << _BASE_BITS  # width of every level but the last
_GREATEST_TOP = 1024
_BLOCK = 1 << 15
_UNDECIDED = np.iinfo(np.int16).min


class Bits(Protocol):
    """Whatever gives random words."""

    def bits(self, count: int) -> npt.NDArray[np.uint64]:
        """Returns words of 64 random bits."""
        ...


def integer_noise(stream: Bits, shape: tuple[int, ...], width: float) -> Integers:
    """Returns independent draws from the discrete Gaussian around 0.

    Args:
        stream: Where random bits come from.
        shape: Of the array.
        width: s in exp(-z^2 / (2 s^2)), the standard deviation, from LEAST_WIDTH to GREATEST_WIDTH.

    Raises:
        ValueError: The width is outside of these.
    """
    if not LEAST_WIDTH <= width <= GREATEST_WIDTH:
        raise ValueError(
            f"The width of integer noise is {width}; expected {LEAST_WIDTH:g} to "
            f"{GREATEST_WIDTH:g}. Choose a finer or a coarser grid."
        )
    tables = [_table(variance) for variance in level_variances(Fraction(width) ** 2)]
    noise = np.empty(math.prod(shape), dtype=np.int64)
    for start in range(0, len(noise), _BLOCK):
        part = noise[start : start + _BLOCK]
        part[:] = tables[-1].draw(stream, len(part))
        for table in reversed(tables[:-1]):
            part <<= _BASE_BITS
            part += table.draw(stream, len(part))
    return noise.reshape(shape)


def covering(width: float) -> float:
    """Returns the width of integer noise that hides as much as a continuous Gaussian's."""
    return math.nextafter(math.hypot(width, _ROUNDING) * (1 + 2.0**-50), math.inf)


def covered(width: float) -> float:
    """Returns the width of the continuous Gaussian that integer noise hides as much as."""
    return math.sqrt(width**2 - _ROUNDING**2)


def level_variances(variance: Fraction) -> list[Fraction]:
    """Returns the variance of each level, the finest first; times 64^2, 64^4, ... they add up.

    Example:
        >>> [int(level) for level in level_variances(Fraction(2**40))]
        [65536, 65536, 65519]
    """
    levels = []
    while variance >= _GREATEST_TOP**2:
        levels.append(Fraction(_LOWER**2))
        variance = (variance - _LOWER**2) / (1 << 2 * _BASE_BITS)
    return [*levels, variance]


@dataclass(frozen=True, eq=False)
class Table:
    """One level: the smallest outcome, and where in 2**128 each outcome ends but the last.

    Most outcomes are known from 16 bits. Where a threshold lies among the numbers that begin with
    these, 112 more decide.
    """

    least: int
    thresholds: tuple[int, ...]
    high: npt.NDArray[np.uint64]  # the upper half of each threshold
    by_prefix: npt.NDArray[np.int16]  # shape [65536], _UNDECIDED where a threshold is inside

    def draw(self, stream: Bits, count: int) -> npt.NDArray[np.int16]:
        """Returns independent outcomes."""
        prefixes = stream.bits(-(-count // 4)).view(np.uint16)[:count].astype(np.intp)
        outcomes = self.by_prefix.take(prefixes)
        undecided = np.flatnonzero(outcomes == _UNDECIDED)
        if len(undecided):
            outcomes[undecided] = self._decided(stream, prefixes[undecided])
        return outcomes

    def _decided(self, stream: Bits, prefixes: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        words = stream.bits(len(prefixes)) >> np.uint64(16)
        words |= prefixes.astype(np.uint64) << np.uint64(48)
        numbers = self.high.searchsorted(words, side="right")
        # A word that is a threshold's upper half, which happens once in 2**50 draws: lower halves.
        for tied in np.flatnonzero(self.high[np.maximum(numbers, 1) - 1] == words).tolist():
            whole = (int(words[tied]) << 64) | int(stream.bits(1)[0])
            numbers[tied] = bisect_right(self.thresholds, whole)
        return np.asarray(numbers + self.least, dtype=np.int64)


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> Table:
    thresholds = _thresholds(_weights(variance))
    high = np.array([threshold >> 64 for threshold in thresholds], dtype=np.uint64)
    first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    below = high.searchsorted(first, side="left")
    upto = high.searchsorted(first | np.uint64((1 << 48) - 1), side="right")
    least = -(len(thresholds) // 2)
    by_prefix = np.where(below == upto, below + least, _UNDECIDED).astype(np.int16)
    return Table(least, thresholds, high, by_prefix)


def _thresholds(weights: list[int]) -> tuple[int, ...]:
    """Returns where outcomes end, from the weights of 0, 1, 2, ...; both signs are as likely."""
    total = 2 * sum(weights) - weights[0]
    ends = ((ended << 128) // total for ended in accumulate(reversed(weights[1:])))
    below = [end for end in ends if end]  # an outcome that ends at 0 never comes
    return (*below, *((1 << 128) - threshold for threshold in reversed(below)))


def _weights(variance: Fraction) -> list[int]:
    """Returns exp(-z^2 / (2 variance)) for z = 0, 1, ..., in units of 2**-320, while above 2**-140.

    Each is the one before times a factor that itself shrinks by a constant factor.
    """
    precision = 320
    shrink, factor = _exp(-1 / variance, precision), _exp(-1 / (2 * variance), precision)
    weights = [1 << precision]
    while weights[-1] >> (precision - 140):
        weights.append(weights[-1] * factor >> precision)
        factor = factor * shrink >> precision
    return weights


def _exp(exponent: Fraction, precision: int) -> int:
    """Returns e to a power between -1 and 0, in units of 2**-precision, by its series."""
    term = total = 1 << precision
    number = 0
    while term:
        number += 1
        term = term * abs(exponent.numerator) // (exponent.denominator * number)
        total += -term if number % 2 else term
    return total
