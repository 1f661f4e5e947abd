"""RDP of one step of the Poisson-subsampled Gaussian, an upper bound at every order.

Neighbours differ by adding or removing one record, or a unit of several records that are each
sampled independently (`grouped_gaussian`). References:

    MTZ19   Mironov, Talwar, Zhang: Renyi Differential Privacy of the Sampled Gaussian Mechanism,
            2019, arXiv:1908.10530. Section 3.3 has the sums for integer and fractional orders.
    CVZ00   Cohen, Rodriguez Villegas, Zagier: Convergence Acceleration of Alternating Series,
            2000, algorithm 1.

Write A(a) = E_{z ~ N(0, s^2)} [(1 - q + q exp((2z - 1) / 2s^2))^a]; the RDP of order a of one
step is log A(a) / (a - 1), and that is also the larger of the two directions (MTZ19 theorem 5).

For an integer a all terms of the binomial sum are positive, and the first two sum with the
rest to one, so that A - 1 is computed without cancellation. For other orders MTZ19 splits the
integral at z0 = s^2 log(1/q - 1) + 1/2, which gives two infinite series. Their terms are positive
up to ceil(a) and alternate from there; with the Mills ratio M of the normal distribution they are

    (1-q)^a exp(-z0^2 / 2s^2) / sqrt(2 pi) * binom(a, i) * [M((i - z0) / s) + M((z0 - a + i) / s)],

where M and |binom(a, i)| are moment sequences in i. For such series CVZ00 bounds the error of its
n terms by the first term over (3 + sqrt 8)^n, so 24 terms are exact in double precision where
plain summation would need thousands. Rounding is covered by an allowance on top, and log A is
convex, so that the chord between two integer orders is an upper bound as well; the smaller of both
bounds is used.

A unit of k records, each sampled independently: the sum is N(b, s^2) with b from Bin(k, q), and
N(0, s^2) without the unit. With it first and an integer order a, E[ratio^a] is an expectation over
a independent b, of exp((S^2 - sum of b^2) / 2s^2) with S their sum. The distribution of S, each b
weighted by exp(-b^2 / 2s^2), is a convolution of positive terms; chords bound the orders between.
Without the unit first, the mean of a convex function of the ratio is taken over small intervals of
sums; moving the mass of an interval to its ends, with the mean ratio kept, only raises it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.gaussian_mixture import (
    EPS,
    LARGEST_LOSS,
    log_mills,
    log_ratio,
    log_tail,
    normal_cells,
    weights_of,
)
from hushdoc.accounting.normal_form import SMALLEST, Step, inverse_square

Array = NDArray[np.float64]

_SERIES_ROUNDING = 4e-15
_TAIL_TERMS = 24

_MOST_ORDERS = 128
_MOST_TERMS = 4096
_NUM_CELLS = 1024
_LARGEST_SIZE = 1000
"""Beyond it binomial coefficients leave the range of a double; such groups are not amplified."""

_FAR = 12.0
"""Deviations beyond which a normal distribution counts as its tail."""

_LEAST_NOISE = 1e-3


def gaussian(noise: float, orders: tuple[float, ...]) -> Array:
    """Returns the RDP of the Gaussian mechanism for each order."""
    return np.asarray(orders) * (inverse_square(noise) / 2)


@lru_cache(maxsize=1024)
def sampled_gaussian(rate: float, noise: float, orders: tuple[float, ...]) -> tuple[float, ...]:
    """RDP of one step, 0 < rate < 1; tuples, so that a cached answer can't be changed."""
    order = np.asarray(orders)
    ceiling = gaussian(noise, orders)
    # Noise so small that sampling gives nothing within double precision.
    if inverse_square(noise) > 1e9:
        return tuple(ceiling.tolist())
    whole = {int(value) for value in (*np.floor(order), *np.ceil(order)) if value > 1}
    log_a = _log_a_integers(rate, noise, sorted(whole)) | {1: 0.0}
    below, above = np.floor(order), np.ceil(order)
    low = np.asarray([log_a[int(value)] for value in below])
    high = np.asarray([log_a[int(value)] for value in above])
    bound = low + (order - below) * (high - low)
    between = order != below
    if np.any(between):
        series = _log_a_fractional(rate, noise, order[between])
        bound[between] = np.minimum(bound[between], series)
    return tuple(np.clip(bound / (order - 1), SMALLEST, ceiling).tolist())


def _log_a_integers(rate: float, noise: float, orders: list[int]) -> dict[int, float]:
    """Log A(a) for integer orders: A - 1 as a sum of positive terms (MTZ19 section 3.3)."""
    index = np.arange(2, max(orders, default=1) + 1, dtype=np.float64)
    sampled, left = index * math.log(rate), math.log1p(-rate)
    # What all orders share takes most of the time.
    apart = _log_expm1((index * index - index) * (inverse_square(noise) / 2))
    found = {}
    for order in orders:
        used = slice(order - 1)
        log_terms = _log_binomials(order)[2:] + sampled[used]
        log_terms = log_terms + (order - index[used]) * left + apart[used]
        found[order] = float(np.logaddexp(0.0, _log_sum(log_terms)))
    return found


@lru_cache(maxsize=256)
def _log_binomials(order: int) -> Array:
    factorials = np.asarray([math.lgamma(value + 1) for value in range(order + 1)])
    return np.asarray(factorials[-1] - factorials - factorials[::-1])


def _log_a_fractional(rate: float, noise: float, order: Array) -> Array:
    """Log A(a) for fractional orders: the series of MTZ19 section 3.3, accelerated."""
    a = order[:, None]
    first_alternating = np.ceil(order).astype(int)
    num_terms = int(np.max(first_alternating)) + _TAIL_TERMS
    i = np.arange(num_terms, dtype=np.float64)[None, :]
    size = _log_abs_binomials(a, num_terms)
    parts = np.stack(
        (
            size + _log_part(a, i, rate=rate, noise=noise, side=1.0),
            size + _log_part(a, a - i, rate=rate, noise=noise, side=-1.0),
        )
    )
    largest = np.max(parts, axis=(0, 2))
    scaled = np.exp(parts - largest[None, :, None])
    total = np.sum(scaled * _weights(first_alternating, num_terms)[None], axis=(0, 2))
    exponents = order * (order * inverse_square(noise) / 2 - math.log(rate) - math.log1p(-rate))
    return np.asarray(np.log(total) + largest + _SERIES_ROUNDING * (4 + exponents))


def _log_part(a: Array, j: Array, *, rate: float, noise: float, side: float) -> Array:
    """Log of (1-q)^(a-j) q^j exp((j^2 - j) / 2s^2) P(Z > side (j - z0) / s).

    The first series has j = i and side 1, the second j = a - i and side -1. Where the tail is
    below one half, the equal form with the Mills ratio is used: its exponents don't cancel.
    """
    log_keep, log_rate = math.log1p(-rate), math.log(rate)
    z0 = noise * noise * (log_keep - log_rate) + 0.5
    x = side * (j - z0) / noise
    direct = (a - j) * log_keep + j * log_rate + (j * j - j) * (inverse_square(noise) / 2)
    scale = -((z0 / noise) ** 2) / 2 - math.log(2 * math.pi) / 2
    return np.where(
        x > 0,
        a * log_keep + scale + log_mills(np.maximum(x, 0.0)),
        direct + log_tail(np.minimum(x, 0.0)),
    )


def _log_abs_binomials(a: Array, num_terms: int) -> Array:
    """Log |binom(a, i)| for i = 0, 1, ... of fractional orders."""
    i = np.arange(1, num_terms, dtype=np.float64)[None, :]
    steps = np.log(np.abs((a - i + 1) / i))
    return np.concatenate((np.zeros_like(a), np.cumsum(steps, axis=1)), axis=1)


def _weights(first_alternating: NDArray[np.int64], num_terms: int) -> Array:
    """The weight of each term: 1 before the signs alternate, from there that of CVZ00."""
    weights = np.zeros((len(first_alternating), num_terms))
    tail = np.asarray(_alternating_weights())
    for row, first in enumerate(first_alternating):
        weights[row, :first] = 1.0
        weights[row, first : first + _TAIL_TERMS] = tail
    return weights


@lru_cache(maxsize=1)
def _alternating_weights() -> tuple[float, ...]:
    """CVZ00 algorithm 1 in integers: weights c_k / d of a_0 - a_1 + a_2 - ..."""
    terms = _TAIL_TERMS
    previous, total = 1, 3
    for _ in range(terms - 1):
        previous, total = total, 6 * total - previous  # d = ((3+sqrt 8)^n + (3-sqrt 8)^n) / 2
    weights = []
    b, c = Fraction(-1), Fraction(-total)
    for k in range(terms):
        c = b - c
        weights.append(float(c / total))
        b = b * (k + terms) * (k - terms) / ((k + Fraction(1, 2)) * (k + 1))
    return tuple(weights)


def _log_sum(log_terms: Array) -> float:
    largest = float(np.max(log_terms))
    return largest + math.log(float(np.sum(np.exp(log_terms - largest))))


def _log_expm1(x: Array) -> Array:
    """log(e^x - 1) for x > 0, without overflow."""
    large = np.maximum(x, 1.0)
    return np.where(x > 1, large + np.log1p(-np.exp(-large)), np.log(np.expm1(np.minimum(x, 1.0))))


@lru_cache(maxsize=256)
def grouped_gaussian(
    rate: float, noise: float, size: int, orders: tuple[float, ...]
) -> tuple[float, ...]:
    """RDP of one step for a unit of `size` records; noise in units of one record's change."""
    ceiling = gaussian(noise / size, orders)
    if noise < _LEAST_NOISE * size or size > _LARGEST_SIZE:
        return tuple(ceiling.tolist())
    weights = weights_of(Step(rate=rate, noise=noise, size=size))
    order = np.asarray(orders)
    log_none = size * math.log1p(-rate)
    log_a = np.maximum(
        _with_first(weights, noise, order), _without_first(weights, noise, log_none, order)
    )
    return tuple(np.clip(log_a / (order - 1), SMALLEST, ceiling).tolist())


def _with_first(weights: Array, noise: float, order: Array) -> Array:
    """Log E[ratio^a]: exact for integer orders, the chord between, infinity above the largest."""
    size = len(weights) - 1
    last = min(_MOST_ORDERS, _MOST_TERMS // size)
    whole = np.asarray([0.0, 0.0, *_log_moments(weights, noise, last), math.inf])
    below = np.minimum(np.floor(order), last).astype(int)
    above = np.minimum(np.ceil(order), last + 1).astype(int)
    share = np.where(below == above, 0.0, order - below)
    with np.errstate(invalid="ignore"):
        chord = whole[below] + share * (whole[above] - whole[below])
    return np.asarray(np.where(share > 0, chord, whole[below]))


def _log_moments(weights: Array, noise: float, last: int) -> list[float]:
    """Log E[ratio^a] for a = 2, ..., last."""
    b = np.arange(len(weights), dtype=np.float64)
    with np.errstate(divide="ignore"):
        once = np.log(weights) - b * b / (2 * noise**2)
    distribution, found = once, []
    for order in range(2, last + 1):
        longer = np.full(len(distribution) + len(once) - 1, -np.inf)
        for shift, weight in enumerate(once):
            part = longer[shift : shift + len(distribution)]
            np.logaddexp(part, distribution + weight, out=part)
        distribution = longer
        total = np.arange(len(distribution), dtype=np.float64)
        exponents = distribution + total * total / (2 * noise**2)
        largest = float(np.max(exponents))
        rounding = 4 * EPS * order * (8 + len(weights) + total[-1] ** 2 / (2 * noise**2))
        found.append(largest + math.log(float(np.sum(np.exp(exponents - largest)))) + rounding)
    return found


def _without_first(weights: Array, noise: float, log_none: float, order: Array) -> Array:
    """Log E[(Q/P)^(a-1)] under Q, from above; `log_none` is log P(none of the records sampled)."""
    sums = np.linspace(-_FAR * noise, len(weights) - 1 + _FAR * noise, _NUM_CELLS + 1)
    loss = -log_ratio(sums, weights, noise)
    absent, _, absent_below, absent_above = normal_cells(sums / noise)
    present = np.zeros_like(absent)
    for shift, weight in enumerate(weights):
        present += weight * normal_cells((sums - shift) / noise)[0]
    ratio = np.exp(np.minimum(loss, LARGEST_LOSS))
    high, low = ratio[:-1], ratio[1:]
    at_high = np.clip((absent - present * low) / np.maximum(high - low, SMALLEST), 0.0, present)
    # Beyond doubles the mass of Q counts as if all of its cell had the largest ratio.
    beyond = loss[:-1] > LARGEST_LOSS
    with np.errstate(divide="ignore"):
        log_high = np.where(beyond, np.log(absent) - loss[:-1], np.log(at_high))
        log_low = np.where(beyond, -np.inf, np.log(present - at_high))
        ends = np.log(np.asarray([absent_below, absent_above]))
    a = order[:, None]
    exponents = np.concatenate(
        (
            log_high + a * loss[:-1],
            log_low + a * loss[1:],
            ends + (a - 1) * np.asarray([-log_none, loss[-1]]),
        ),
        axis=1,
    )
    largest = np.max(exponents, axis=1)
    total = np.sum(np.exp(exponents - largest[:, None]), axis=1)
    return np.asarray(largest + np.log(total) + 1e-12)
