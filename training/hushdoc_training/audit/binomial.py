"""Binomial probabilities from logarithms, and exact intervals of a share, with numpy alone.

CP34: Clopper, Pearson: The Use of Confidence or Fiducial Limits, Biometrika 26, 1934.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def probabilities(count: int, right: float, wrong: float) -> Floats:
    """Returns the probability of 0 to `count` successes; one has the log probability `right`.

    That of a failure is given too, since near 1 it can't be computed from the other.

    Example:
        >>> probabilities(2, math.log(0.5), math.log(0.5)).round(6).tolist()
        [0.25, 0.5, 0.25]
    """
    numbers = np.arange(count + 1)
    found: Floats = np.exp(_ways(count) + numbers * right + (count - numbers) * wrong)
    return found


def clopper_pearson(hits: int, total: int, error: float) -> tuple[float, float]:
    """Returns the exact interval of a share (CP34); half of the error lies on each side."""
    ways, numbers = _ways(total), np.arange(total + 1)

    def tail(share: float, part: slice) -> float:
        logs = numbers[part] * (math.log(share) - math.log1p(-share)) + total * math.log1p(-share)
        return float(np.exp(ways[part] + logs).sum())

    low = crossing(lambda share: tail(share, slice(hits, None)) > error / 2) if hits else 0.0
    high = 1.0
    if hits < total:
        high = crossing(lambda share: tail(share, slice(0, hits + 1)) <= error / 2)
    return low, high


def _ways(count: int) -> Floats:
    """Returns the logarithm of the number of ways to choose 0 to `count` of them."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    found: Floats = factorials[count] - factorials - factorials[::-1]
    return found


def crossing(is_beyond: Callable[[float], bool]) -> float:
    """Returns the share from which on `is_beyond` holds."""
    low, high = 0.0, 1.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return (low + high) / 2
