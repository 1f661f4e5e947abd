"""Renyi differential privacy (RDP) of the Poisson-subsampled Gaussian, never below the true value.

Neighbours differ by adding or removing one record. References:

    MTZ19   Mironov, Talwar, Zhang: Renyi Differential Privacy of the Sampled Gaussian Mechanism,
            2019, arXiv:1908.10530. Section 3.3 has the sums for integer and fractional orders.
    CKS20   Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020,
            arXiv:2004.00010, proposition 12: the conversion to (epsilon, delta).
    CVZ00   Cohen, Rodriguez Villegas, Zagier: Convergence Acceleration of Alternating Series,
            2000, algorithm 1.

Write A(a) = E_{z ~ N(0, s^2)} [(1 - q + q exp((2z - 1) / 2s^2))^a]; the RDP of order a of one
step is log A(a) / (a - 1), and that is also the larger of the two directions (MTZ19 theorem 5).

For a whole number a all terms of the binomial sum are positive, and the first two sum with the
rest to one, so that A - 1 is computed without cancellation. For other orders MTZ19 splits the
integral at z0 = s^2 log(1/q - 1) + 1/2, which gives two infinite series. Their terms are positive
up to ceil(a) and alternate from there; with the Mills ratio M of the normal law they are

    (1-q)^a exp(-z0^2 / 2s^2) / sqrt(2 pi) * binom(a, i) * [M((i - z0) / s) + M((z0 - a + i) / s)],

where M and |binom(a, i)| are moment sequences in i. For such series CVZ00 bounds the error of its
n terms by the first term over (3 + sqrt 8)^n, so 24 terms are exact in double precision where
plain summation would need thousands. Rounding is covered by an allowance on top, and log A is
convex, so that the chord between two whole orders is an upper bound as well; the smaller of both
bounds is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting import mechanism as words
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.accounting.normal import log_mills, log_tail

Array = NDArray[np.float64]

ORDERS: tuple[float, ...] = (
    *(1 + step / 1000 for step in (1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 56, 80)),
    *(1 + step / 20 for step in range(2, 40)),
    *(3 + step / 10 for step in range(91)),
    *(12 + step / 4 for step in range(1, 32)),
    *(float(order) for order in range(20, 65)),
    *(float(round(64 * 2 ** (step / 4))) for step in range(1, 25)),
)
"""Orders to choose from. They hold those of Opacus; more orders can only lower epsilon."""

ROUNDING = 1e-9
"""Relative allowance that `epsilon` adds, so that rounding on any machine stays above the truth."""

_SERIES_ROUNDING = 4e-15
_MOST_NOISE = 1e50
_SMALLEST = 1e-300
"""Stands for what is positive but too small for a double, so that zero means: nothing was read."""
_TAIL_TERMS = 24


def epsilon(mechanism: Mechanism, delta: float, *, adjacency: str = "add-remove") -> float:
    """Returns an epsilon for which the mechanism is (epsilon, delta)-DP under add-remove.

    Args:
        mechanism: What ran.
        delta: From 0 to 1. At 0 only a mechanism that reads nothing has a finite epsilon.

    Returns:
        The smallest epsilon over ORDERS; infinity where nothing holds.

    Raises:
        ValueError: delta is no probability.

    Example:
        >>> from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
        >>> step = PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=1.5))
        >>> round(epsilon(Composed(event=step, count=350), 1 / 389), 2)
        8.01
    """
    if adjacency not in ("add-remove", "zero-out"):
        return math.inf
    return profile(mechanism, (delta,))[0][0]


def profile(mechanism: Mechanism, deltas: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Returns ((epsilon, delta), ...): what holds at each of these deltas.

    Args:
        mechanism: What ran.
        deltas: From 0 to 1 each.

    Raises:
        ValueError: A delta is no probability.
    """
    for delta in deltas:
        if not 0 <= delta <= 1:
            raise ValueError(f"delta is {delta!r}; expected a probability from 0 to 1.")
    spent = rdp(mechanism)
    return tuple((epsilon_from_rdp(spent, delta), delta) for delta in deltas)


def epsilon_from_rdp(spent: Array, delta: float, orders: Sequence[float] = ORDERS) -> float:
    """Returns the smallest epsilon that RDP of these orders gives (CKS20 proposition 12).

    Args:
        spent: RDP of each order.
        delta: From 0 to 1.
        orders: All above 1.
    """
    if delta >= 1 or np.any(spent == 0):
        return 0.0
    if delta <= 0 or np.all(np.isinf(spent)):
        return math.inf
    # RDP bounds the Kullback-Leibler divergence, and so the total variation (Bretagnolle, Huber
    # 1979): for a delta this large epsilon is 0.
    if delta**2 >= -math.expm1(-float(np.min(spent))):
        return 0.0
    order = np.asarray(orders, dtype=np.float64)
    price = spent - math.log(delta) / (order - 1)
    candidates = price * (1 + ROUNDING) + np.log1p(-1 / order) - np.log(order) / (order - 1)
    return max(0.0, float(np.min(candidates)))


def rdp(mechanism: Mechanism, orders: Sequence[float] = ORDERS) -> Array:
    """Returns the RDP of a mechanism for each order; infinity where nothing holds.

    Args:
        mechanism: What ran.
        orders: All above 1.

    Raises:
        ValueError: An order is not above 1.
    """
    chosen = tuple(float(order) for order in orders)
    if not all(1 < order < math.inf for order in chosen):
        raise ValueError(f"The orders are {chosen}; expected finite numbers above 1.")
    return _rdp(mechanism, chosen)


def _rdp(mechanism: Mechanism, orders: tuple[float, ...]) -> Array:
    match mechanism:
        case Gaussian():
            return _gaussian(mechanism.noise_multiplier, orders)
        case Composed():
            # Zero times infinity: an event that never ran spends nothing.
            if mechanism.count == 0:
                return np.zeros(len(orders))
            return mechanism.count * _rdp(mechanism.event, orders)
        case words.Sequence():
            return sum((_rdp(event, orders) for event in mechanism.events), np.zeros(len(orders)))
        case PoissonSampled():
            return _sampled(mechanism.sampling_rate, mechanism.event, orders)
        case _:
            return np.full(len(orders), math.inf)


def _sampled(rate: float, event: Mechanism, orders: tuple[float, ...]) -> Array:
    """RDP of an event on a Poisson sample.

    A sample of a sample is a sample at the product of the rates, and Gaussians on one sample are
    one Gaussian. Anything else is counted as if it saw all records, which is never too little:
    Renyi divergence is jointly quasi-convex.
    """
    while isinstance(event, PoissonSampled):
        both = rate * event.sampling_rate
        rate = max(both, _SMALLEST) if rate > 0 and event.sampling_rate > 0 else 0.0
        event = event.event
    if rate == 0:
        return np.zeros(len(orders))
    precision = _precision(event)
    if precision is None or rate == 1:
        return _rdp(event, orders)
    if precision == 0:
        return np.zeros(len(orders))
    # Less noise than there is costs more, so the cap is safe; it keeps squares finite.
    noise = 0.0 if math.isinf(precision) else min(1 / math.sqrt(precision), _MOST_NOISE)
    return np.asarray(_sampled_gaussian(rate, noise, orders))


def _precision(event: Mechanism) -> float | None:
    """The sum of 1 / noise_multiplier^2 of an event that is made of Gaussians only, or None."""
    match event:
        case Gaussian():
            return _inverse_square(event.noise_multiplier)
        case Composed():
            inner = _precision(event.event)
            return inner if inner is None else (event.count * inner if event.count else 0.0)
        case words.Sequence():
            parts = [_precision(part) for part in event.events]
            return None if None in parts else float(sum(part or 0.0 for part in parts))
        case _:
            return None


def _inverse_square(noise: float) -> float:
    return math.inf if noise * noise == 0 else max(1 / (noise * noise), _SMALLEST)


def _gaussian(noise: float, orders: tuple[float, ...]) -> Array:
    return np.asarray(orders) * (_inverse_square(noise) / 2)


@lru_cache(maxsize=256)
def _sampled_gaussian(rate: float, noise: float, orders: tuple[float, ...]) -> tuple[float, ...]:
    """RDP of one step, 0 < rate < 1; tuples, so that a cached answer can't be changed."""
    order = np.asarray(orders)
    ceiling = _gaussian(noise, orders)
    # Beyond this noise is so small that sampling no longer helps within double precision.
    if _inverse_square(noise) > 1e9:
        return tuple(ceiling.tolist())
    whole = {int(value) for value in (*np.floor(order), *np.ceil(order)) if value > 1}
    log_a = {value: _log_a_integer(rate, noise, value) for value in sorted(whole)} | {1: 0.0}
    below, above = np.floor(order), np.ceil(order)
    low = np.asarray([log_a[int(value)] for value in below])
    high = np.asarray([log_a[int(value)] for value in above])
    bound = low + (order - below) * (high - low)
    between = order != below
    if np.any(between):
        series = _log_a_fractional(rate, noise, order[between])
        bound[between] = np.minimum(bound[between], series)
    return tuple(np.clip(bound / (order - 1), _SMALLEST, ceiling).tolist())


def _log_a_integer(rate: float, noise: float, order: int) -> float:
    """Log A(a) for a whole order: A - 1 as a sum of positive terms (MTZ19 section 3.3)."""
    index = np.arange(2, order + 1, dtype=np.float64)
    exponent = (index * index - index) * (_inverse_square(noise) / 2)
    log_terms = (
        _log_binomials(order)[2:]
        + index * math.log(rate)
        + (order - index) * math.log1p(-rate)
        + _log_expm1(exponent)
    )
    return float(np.logaddexp(0.0, _log_sum(log_terms)))


@lru_cache(maxsize=256)
def _log_binomials(order: int) -> Array:
    factorials = np.asarray([math.lgamma(value + 1) for value in range(order + 1)])
    return np.asarray(factorials[-1] - factorials - factorials[::-1])


def _log_a_fractional(rate: float, noise: float, order: Array) -> Array:
    """Log A(a) for orders that are not whole: the series of MTZ19 section 3.3, accelerated."""
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
    exponents = order * (order * _inverse_square(noise) / 2 - math.log(rate) - math.log1p(-rate))
    return np.asarray(np.log(total) + largest + _SERIES_ROUNDING * (4 + exponents))


def _log_part(a: Array, j: Array, *, rate: float, noise: float, side: float) -> Array:
    """Log of (1-q)^(a-j) q^j exp((j^2 - j) / 2s^2) P(Z > side (j - z0) / s).

    The first series has j = i and side 1, the second j = a - i and side -1. Where the tail is
    below one half, the equal form with the Mills ratio is used: its exponents don't cancel.
    """
    log_keep, log_rate = math.log1p(-rate), math.log(rate)
    z0 = noise * noise * (log_keep - log_rate) + 0.5
    x = side * (j - z0) / noise
    direct = (a - j) * log_keep + j * log_rate + (j * j - j) * (_inverse_square(noise) / 2)
    scale = -((z0 / noise) ** 2) / 2 - math.log(2 * math.pi) / 2
    return np.where(
        x > 0,
        a * log_keep + scale + log_mills(np.maximum(x, 0.0)),
        direct + log_tail(np.minimum(x, 0.0)),
    )


def _log_abs_binomials(a: Array, num_terms: int) -> Array:
    """Log |binom(a, i)| for i = 0, 1, ... of orders that are not whole."""
    i = np.arange(1, num_terms, dtype=np.float64)[None, :]
    steps = np.log(np.abs((a - i + 1) / i))
    return np.concatenate((np.zeros_like(a), np.cumsum(steps, axis=1)), axis=1)


def _weights(first_alternating: NDArray[np.int64], num_terms: int) -> Array:
    """What each term counts: 1 before the signs alternate, from there the weights of CVZ00."""
    weights = np.zeros((len(first_alternating), num_terms))
    tail = np.asarray(_alternating_weights())
    for row, first in enumerate(first_alternating):
        weights[row, :first] = 1.0
        weights[row, first : first + _TAIL_TERMS] = tail
    return weights


@lru_cache(maxsize=1)
def _alternating_weights() -> tuple[float, ...]:
    """CVZ00 algorithm 1 in whole numbers: weights c_k / d of a_0 - a_1 + a_2 - ..."""
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
