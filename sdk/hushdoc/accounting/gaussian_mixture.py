"""The noisy sum of sampled records: its privacy loss, the inverse of that, and normal tails.

The sum with the records is P = N(b, s^2) for b from Bin(k, q), and without them Q = N(0, s^2). The
loss log P/Q grows with the sum, so that an interval of losses is an interval of sums. The same
holds where a sampled record is replaced by another, P = (1-q) N(0, s^2) + q N(1, s^2) against
Q = (1-q) N(0, s^2) + q N(-1, s^2). No two records x and y of norm 1 tell more: for a set of sums
with mass Phi(z) under N(0, s^2), the lemma of Neyman and Pearson bounds its mass under N(x, s^2)
by Phi(z + 1/s) from above and under N(y, s^2) by Phi(z - 1/s) from below, and a half-line reaches
both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.normal_form import Step

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

LARGEST_LOSS = 600.0
"""Larger losses count as if the record were published: e^loss must stay a double."""

_NEAR = 0.1
_LARGE = 20.0
_MOST_NEWTON_STEPS = 60
_FAR = 6.0
_FRACTION_TERMS = 48


def weights_of(step: Step) -> Array:
    """Returns the probabilities of 0, 1, ... sampled records."""
    if step.rate == 1:
        return np.asarray([0.0, 1.0])
    if step.size == 1:
        return np.asarray([1 - step.rate, step.rate])
    size, rate = step.size, step.rate
    return np.asarray(
        [math.comb(size, b) * rate**b * (1 - rate) ** (size - b) for b in range(size + 1)]
    )


def log_ratio(sums: Array, weights: Array, noise: float) -> Array:
    """Returns log P/Q at some sums: of none + e^rest, or near 0 of 1 + sum_b w_b (e^.. - 1)."""
    rest = _log_sampled(sums, weights, noise)[0]
    none = float(weights[0])
    if none == 0:
        return rest
    excess = np.zeros_like(sums)
    for b in range(1, len(weights)):
        exponent = b * (2 * sums - b) / (2 * noise**2)
        excess += weights[b] * np.expm1(np.minimum(exponent, LARGEST_LOSS))
    near = np.abs(excess) < _NEAR
    far = np.logaddexp(math.log(none), rest)
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), far)


def _log_sampled(sums: Array, weights: Array, noise: float) -> tuple[Array, Array]:
    """Log of sum_b w_b exp((2bx - b^2) / 2s^2) over b from 1, and its slope in x."""
    used = [b for b in range(1, len(weights)) if weights[b] > 0]
    terms = np.stack([math.log(weights[b]) + b * (2 * sums - b) / (2 * noise**2) for b in used])
    largest = np.max(terms, axis=0)
    shares = np.exp(terms - largest)
    total = np.sum(shares, axis=0)
    slope = np.asarray(used, dtype=np.float64) @ (shares / total) / noise**2
    return np.asarray(largest + np.log(total)), np.asarray(slope)


def sums_at(losses: Array, weights: Array, noise: float) -> tuple[Array, Array]:
    """Returns the sums with these losses (-infinity where there is none), and the loss's errors."""
    none, some = float(weights[0]), float(np.sum(weights[1:]))
    # e^loss - P(none sampled), each way where it is nearly exact
    rest = np.exp(losses) - none if none <= some else np.expm1(losses) + some
    reached = rest > 0
    target = np.log(np.where(reached, rest, 1.0))
    starts = [
        (target - math.log(weights[b])) * (noise**2 / b) + b / 2
        for b in range(1, len(weights))
        if weights[b] > 0
    ]
    # The log of the sum is convex and above each of its terms, so Newton's method comes down to
    # the root from the smallest of these.
    sums = np.min(np.stack(starts), axis=0)
    if len(starts) > 1:
        sums = _newton(sums, target, weights, noise)
    scale = some if none > some else 1.0
    off = np.abs(log_ratio(sums, weights, noise) - losses) + 8 * EPS * (scale + np.abs(losses))
    return np.where(reached, sums, -np.inf), np.where(reached, off, 0.0)


def replaced_sums_at(losses: Array, weights: Array, noise: float) -> tuple[Array, Array]:
    """Returns the same as `sums_at` where one record is replaced by another.

    With c = q / (1 - q) exp(-1 / 2s^2) the ratio is (1 + c e^y) / (1 + c e^-y) at the sum s^2 y,
    so that sinh(y - loss / 2) = sinh(loss / 2) / c.
    """
    half = losses / 2
    log_c = math.log(weights[1]) - math.log(weights[0]) - 1 / (2 * noise**2)
    with np.errstate(divide="ignore"):
        log_sinh = np.log(np.abs(np.sinh(half))) - log_c
    small = np.arcsinh(np.exp(np.minimum(log_sinh, _LARGE)))
    large = np.maximum(log_sinh, _LARGE) + math.log(2)
    sums = noise**2 * (half + np.sign(losses) * np.where(log_sinh > _LARGE, large, small))
    found = replaced_log_ratio(sums, weights, noise)
    off = np.abs(found - losses) + 8 * EPS * (min(1.0, float(weights[1])) + np.abs(losses))
    return sums, off


def replaced_log_ratio(sums: Array, weights: Array, noise: float) -> Array:
    """Returns log P/Q at some sums where one record is replaced by another."""
    return log_ratio(sums, weights, noise) - log_ratio(-sums, weights, noise)


def _newton(sums: Array, target: Array, weights: Array, noise: float) -> Array:
    for _ in range(_MOST_NEWTON_STEPS):
        value, slope = _log_sampled(sums, weights, noise)
        sums = sums - (value - target) / slope
        if np.all(np.abs(value - target) <= 64 * EPS * (1 + np.abs(target))):
            break
    return sums


def range_of(weights: Array, noise: float, cut: float) -> tuple[float, float]:
    """Returns sums below and above which P and Q have at most `cut`, above 0, of their mass."""
    far = noise * (math.sqrt(2 * max(1.0, -math.log(cut))) + 1)
    below, above = -far, len(weights) - 1 + far
    shifted = list(enumerate(weights.tolist()))
    low, high = 0.0, above
    for _ in range(50):
        middle = (low + high) / 2
        # Arrays would take longer for so few numbers.
        mass = sum(w * math.erfc((middle - b) / noise / math.sqrt(2)) / 2 for b, w in shifted)
        is_inside = mass > cut
        low, high = (middle, high) if is_inside else (low, middle)
    return below, high


def normal_cells(z: Array) -> tuple[Array, Array, float, float]:
    """Returns masses of a standard normal between ascending z, their errors, and those beyond z."""
    outer = tail(np.abs(z))
    left, right = outer[:-1], outer[1:]
    straddles = (z[:-1] < 0) & (z[1:] >= 0)
    mass = np.where(straddles, 1 - left - right, np.abs(left - right))
    finite = np.where(np.isinf(z), 0.0, z)
    squares = np.maximum(finite[:-1] ** 2, finite[1:] ** 2)
    error = (left + right + straddles) * (EPS * (4 + squares))
    below = float(outer[0]) if z[0] < 0 else 1 - float(outer[0])
    above = float(outer[-1]) if z[-1] >= 0 else 1 - float(outer[-1])
    return mass, error, below, above


def log_tail(x: Array) -> Array:
    """Returns log P(Z > x) for a standard normal Z, for each x."""
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
    """Returns log(P(Z > x) / density(x)), the Mills ratio, for each x from 0."""
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
    return np.asarray(np.log(tail(x)))


def tail(x: Array) -> Array:
    """Returns P(Z > x) for a standard normal Z, for each x."""
    scaled = (x / math.sqrt(2)).ravel().tolist()
    found = np.fromiter(map(math.erfc, scaled), np.float64, len(scaled))
    return np.asarray((found / 2).reshape(x.shape))
