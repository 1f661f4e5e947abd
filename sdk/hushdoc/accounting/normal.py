"""The normal law's upper tail in logarithms, without scipy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FAR = 6.0
_FRACTION_TERMS = 48


def log_tail(x: Array) -> Array:
    """Returns log P(Z > x) for a standard normal Z, for each x.

    Example:
        >>> log_tail(np.asarray([0.0, 40.0])).round(4).tolist()
        [-0.6931, -804.6084]
    """
    far = x > _FAR
    if not np.any(far):
        return _log_tail_near(x)
    safe = np.where(far, x, _FAR)
    return np.where(
        far,
        log_mills(safe) - safe * safe / 2 - math.log(2 * math.pi) / 2,
        _log_tail_near(np.where(far, 0.0, x)),
    )


def log_mills(x: Array) -> Array:
    """Returns log(P(Z > x) / density(x)), the Mills ratio, for each x from 0.

    Example:
        >>> log_mills(np.asarray([0.0, 1e8])).round(4).tolist()
        [0.2258, -18.4207]
    """
    near = np.minimum(x, _FAR)
    direct = _log_tail_near(near) + near * near / 2 + math.log(2 * math.pi) / 2
    if not np.any(x > _FAR):
        return direct
    # Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/(x + ...)))), from the inside out.
    far = np.maximum(x, _FAR)
    denominator = far
    for numerator in range(_FRACTION_TERMS, 0, -1):
        denominator = far + numerator / denominator
    return np.where(x > _FAR, -np.log(denominator), direct)


def _log_tail_near(x: Array) -> Array:
    scaled = (x / math.sqrt(2)).ravel().tolist()
    tails = np.fromiter((math.erfc(value) for value in scaled), np.float64, len(scaled))
    return np.asarray(np.log(tails / 2).reshape(x.shape))


def tail(x: Array) -> Array:
    """Returns P(Z > x) for a standard normal Z, for each x.

    Example:
        >>> tail(np.asarray([0.0, 1.0, np.inf])).round(4).tolist()
        [0.5, 0.1587, 0.0]
    """
    scaled = (x / math.sqrt(2)).ravel().tolist()
    found = np.fromiter(map(math.erfc, scaled), np.float64, len(scaled))
    return np.asarray((found / 2).reshape(x.shape))
