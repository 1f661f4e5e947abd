"""Renyi divergence of a Gaussian on a Poisson sample, for a unit that owns several records.

Each of k records is sampled alone, so with the unit the sum is N(b, s^2) with b from Bin(k, q), and
N(0, s^2) without it. Never below the true value, in both directions:

With the unit first and a whole order a, E[ratio^a] is an expectation over a independent b, of
exp((S^2 - sum of b^2) / 2s^2) with S their sum. The law of S, each b weighted by exp(-b^2 / 2s^2),
is a convolution of positive terms. log E[ratio^a] is convex in a, which gives the orders between.

Without the unit first, the mean of a convex function of the ratio is taken over small intervals
of sums; putting the mass of an interval on its ends, with the mean ratio kept, only raises it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.mixture import EPS, log_ratio, normal_cells, weights_of
from hushdoc.accounting.sampled_gaussian import gaussian
from hushdoc.accounting.steps import SMALLEST, Step

Array = NDArray[np.float64]

_MOST_ORDERS = 128
_MOST_TERMS = 4096
_NUM_CELLS = 1024
_LARGEST_SIZE = 1000
"""Beyond it binomial coefficients leave the range of a double; such groups are not amplified."""

_FAR = 12.0
"""Deviations beyond which a normal law counts as its tail."""

_LEAST_NOISE = 1e-3


@lru_cache(maxsize=256)
def grouped_gaussian(
    rate: float, noise: float, size: int, orders: tuple[float, ...]
) -> tuple[float, ...]:
    """Returns the RDP of one step for each order; tuples, so that a cached answer can't be changed.

    Args:
        rate: Above 0 and below 1.
        noise: In units of what one record may change.
        size: Records of the unit, from 2.
        orders: All above 1.
    """
    ceiling = gaussian(noise / size, orders)
    if noise < _LEAST_NOISE * size or size > _LARGEST_SIZE:
        return tuple(ceiling.tolist())
    weights = weights_of(Step(rate=rate, noise=noise, size=size))
    order = np.asarray(orders)
    log_a = np.maximum(_with_first(weights, noise, order), _without_first(weights, noise, order))
    return tuple(np.clip(log_a / (order - 1), SMALLEST, ceiling).tolist())


def _with_first(weights: Array, noise: float, order: Array) -> Array:
    """Log E[ratio^a]: exact for whole orders, the chord between, infinity above the largest."""
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
    law, found = once, []
    for order in range(2, last + 1):
        longer = np.full(len(law) + len(once) - 1, -np.inf)
        for shift, weight in enumerate(once):
            part = longer[shift : shift + len(law)]
            np.logaddexp(part, law + weight, out=part)
        law = longer
        total = np.arange(len(law), dtype=np.float64)
        exponents = law + total * total / (2 * noise**2)
        largest = float(np.max(exponents))
        rounding = 4 * EPS * order * (8 + len(weights) + total[-1] ** 2 / (2 * noise**2))
        found.append(largest + math.log(float(np.sum(np.exp(exponents - largest)))) + rounding)
    return found


def _without_first(weights: Array, noise: float, order: Array) -> Array:
    """Log E[(Q/P)^(a-1)] under Q, from above."""
    sums = np.linspace(-_FAR * noise, len(weights) - 1 + _FAR * noise, _NUM_CELLS + 1)
    loss = -log_ratio(sums, weights, noise)
    absent, _, absent_below, absent_above = normal_cells(sums / noise)
    present = np.zeros_like(absent)
    for shift, weight in enumerate(weights):
        present += weight * normal_cells((sums - shift) / noise)[0]
    high, low = np.exp(loss[:-1]), np.exp(loss[1:])
    at_high = np.clip((absent - present * low) / np.maximum(high - low, SMALLEST), 0.0, present)
    with np.errstate(divide="ignore"):
        mass = np.log(np.concatenate((at_high, present - at_high)))
        ends = np.log(np.asarray([absent_below, absent_above]))
    a = order[:, None]
    exponents = np.concatenate(
        (
            mass + a * np.concatenate((loss[:-1], loss[1:])),
            ends + (a - 1) * np.asarray([-math.log(max(weights[0], SMALLEST)), loss[-1]]),
        ),
        axis=1,
    )
    largest = np.max(exponents, axis=1)
    total = np.sum(np.exp(exponents - largest[:, None]), axis=1)
    return np.asarray(largest + np.log(total) + 1e-12)
