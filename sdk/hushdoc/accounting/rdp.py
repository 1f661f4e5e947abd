"""Renyi differential privacy (RDP) of every mechanism, an upper bound at every order.

The papers:

    CKS20   Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020,
            arXiv:2004.00010, proposition 12: the conversion to (epsilon, delta).
    BBG18   Balle, Barthe, Gaboardi: Privacy Amplification by Subsampling, 2018, arXiv:1807.01647,
            theorems 2 and 10.
    PS22    Papernot, Steinke: Hyperparameter Tuning with Renyi Differential Privacy, 2022,
            arXiv:2110.03620, theorems 2 and 6: the best of a random number of runs.

For each order: steps add up; a cluster that takes part with the public probability C has
E[ratio^a] = 1 - C + C exp((a - 1) rho(a)); of disjoint parts the largest counts.

Where a record is exchanged in samples of a fixed size, BBG18 bounds the hockey-stick curve at
thresholds above 1 by that of (1-q) Q + q P against Q and below 1 by that of the reverse. A Renyi
divergence is an integral over the curve with positive weights, so that E[ratio^a] - 1 is at most
the sum over both, and the reverse has the smaller one. Where a record is replaced in a Poisson
sample that holds as well, and so does the path over the data without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.accounting.normal_form import (
    UNBOUNDED,
    Largest,
    NormalForm,
    Product,
    PublicMixture,
    Selected,
    Step,
    normal_form,
)
from hushdoc.accounting.sampled_gaussian import gaussian, grouped_gaussian, sampled_gaussian
from hushdoc.accounting.simplified_forms import coarsened, count_of, steps_of

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

_UNITS_OF_A_STEP = 30_000
_UNITS_OF_A_GROUP, _UNITS_OF_A_RECORD, _MOST_RECORDS = 100_000, 5_000, 64
"""Work of one step at all orders; of a group besides by its records, as far as it is amplified."""

_LARGEST_HALVED_ORDER = 64
_MOST_SELECTIONS = 256
_MOST_GROUPED_STEPS = 32

MAX_DIFFERENT_STEPS = 256
"""Largest number of different steps; more are rounded to fewer that cost more."""


def epsilon(mechanism: Mechanism, delta: float, *, adjacency: str = "add-remove") -> float:
    """Returns an epsilon for which the mechanism is (epsilon, delta)-DP.

    Args:
        mechanism: What ran.
        delta: From 0 to 1. At 0 only a mechanism that reads nothing has a finite epsilon.
        adjacency: How neighbours differ, one of ADJACENCIES.

    Returns:
        The smallest epsilon over ORDERS; infinity where nothing holds.

    Raises:
        ValueError: delta is not a probability, or the adjacency is unknown.

    Example:
        >>> from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
        >>> step = PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=1.5))
        >>> round(epsilon(Composed(event=step, count=350), 1 / 389), 2)
        8.01
    """
    require_delta(delta)
    return epsilon_from_rdp(rdp(mechanism, adjacency=adjacency), delta)


def require_delta(delta: float) -> None:
    """Raises ValueError unless delta is a probability."""
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is {delta!r}; expected a probability from 0 to 1.")


def epsilon_from_rdp(spent: Array, delta: float, orders: Sequence[float] = ORDERS) -> float:
    """Returns the smallest epsilon that RDP of these orders gives (CKS20 proposition 12)."""
    if delta >= 1 or np.any(spent == 0):
        return 0.0
    if delta <= 0 or np.all(np.isinf(spent)):
        return math.inf
    # RDP bounds the Kullback-Leibler divergence, and so the total variation (Bretagnolle, Huber
    # 1979): for a delta this large epsilon is 0.
    if delta**2 >= -math.expm1(-float(np.min(spent))):
        return 0.0
    order = np.asarray(orders, dtype=np.float64)
    with np.errstate(over="ignore"):
        price = (spent - math.log(delta) / (order - 1)) * (1 + ROUNDING)
    candidates = price + np.log1p(-1 / order) - np.log(order) / (order - 1)
    return max(0.0, float(np.min(candidates)))


def delta_from_rdp(spent: Array, epsilon: float, orders: Sequence[float] = ORDERS) -> float:
    """Returns the smallest delta that RDP of these orders gives (CKS20 proposition 12)."""
    if np.any(spent == 0):
        return 0.0
    finite = np.isfinite(spent)
    if not np.any(finite):
        return 1.0
    order, spent = np.asarray(orders, dtype=np.float64)[finite], spent[finite]
    with np.errstate(over="ignore"):
        exponent = (order - 1) * (spent * (1 + ROUNDING) - epsilon)
    log_delta = exponent + (order - 1) * np.log1p(-1 / order) - np.log(order)
    total_variation = math.sqrt(-math.expm1(-float(np.min(spent))))
    found = math.exp(min(0.0, float(np.min(log_delta))))
    return min(1.0, max(found, math.ulp(0.0)) * (1 + ROUNDING), total_variation * (1 + ROUNDING))


def rdp(
    mechanism: Mechanism, orders: Sequence[float] = ORDERS, *, adjacency: str = "add-remove"
) -> Array:
    """Returns the RDP of a mechanism for each order; infinity where nothing holds.

    Orders that are not above 1 and an unknown adjacency are a ValueError.
    """
    return form_rdp(normal_form(mechanism, adjacency), orders)


def work_of(mechanism: Mechanism, *, adjacency: str = "add-remove") -> int:
    """Returns what `rdp` takes, in units of `work.Work`, counted before anything is computed."""
    steps = steps_of(_limited(normal_form(mechanism, adjacency)))
    return sum(
        _UNITS_OF_A_GROUP + _UNITS_OF_A_RECORD * min(step.size, _MOST_RECORDS)
        if step.size > 1
        else _UNITS_OF_A_STEP * (1 if step.change == "removed" else 2)
        for step in steps
    )


def form_rdp(form: NormalForm, orders: Sequence[float] = ORDERS) -> Array:
    """Returns the RDP of a normal form for each order; ValueError unless all are above 1."""
    chosen = tuple(float(order) for order in orders)
    if not all(1 < order < math.inf for order in chosen):
        raise ValueError(f"The orders are {chosen}; expected finite numbers above 1.")
    return np.asarray(_known_rdp(form, chosen))


@lru_cache(maxsize=64)
def _known_rdp(form: NormalForm, orders: tuple[float, ...]) -> tuple[float, ...]:
    """Tuples, so that a cached answer can't be changed."""
    # What is too large for a double is infinity.
    with np.errstate(over="ignore"):
        found = _rdp(_limited(form), orders)
    # What is not a number bounds nothing; every comparison with it would say that it is small.
    return tuple(np.where(np.isnan(found), math.inf, found).tolist())


def _limited(form: NormalForm) -> NormalForm:
    """A form that costs no less and takes bounded time."""
    if count_of(form, Selected) > _MOST_SELECTIONS:
        return UNBOUNDED
    grouped = any(step.size > 1 for step in steps_of(form))
    return coarsened(form, _MOST_GROUPED_STEPS if grouped else MAX_DIFFERENT_STEPS)


def _rdp(form: NormalForm, orders: tuple[float, ...]) -> Array:
    match form:
        case Step():
            return _step(form, orders)
        case Product():
            terms = (count * _rdp(part, orders) for part, count in form.terms)
            return np.asarray(sum(terms, np.zeros(len(orders))))
        case PublicMixture():
            return _public_mixture(form.rate, _rdp(form.event, orders), orders)
        case Largest():
            return np.asarray(np.max([_rdp(part, orders) for part in form.events], axis=0))
        case Selected():
            return _selected(form, _rdp(form.event, orders), orders)
        case _:
            return np.full(len(orders), math.inf)


def _step(step: Step, orders: tuple[float, ...]) -> Array:
    if step.rate == 1:
        return gaussian(step.noise, orders)
    if step.size > 1:
        return np.asarray(grouped_gaussian(step.rate, step.noise, step.size, orders))
    if step.change == "removed":
        return np.asarray(sampled_gaussian(step.rate, step.noise, orders))
    if step.change == "exchanged":
        return _both_ways(step.rate, step.noise, orders)
    either = _both_ways(step.rate, step.noise / 2, orders)
    return np.minimum(either, _removed_and_added(step.rate, step.noise, orders))


def _both_ways(rate: float, noise: float, orders: tuple[float, ...]) -> Array:
    """Log(2 A - 1) / (a - 1) for A = exp((a - 1) rho), and no more than without sampling."""
    order = np.asarray(orders) - 1
    log_a = order * np.asarray(sampled_gaussian(rate, noise, orders))
    # log(2 e^x - 1) = x + log(2 - e^-x)
    both = (log_a + np.log1p(-np.expm1(-log_a))) / order
    return np.asarray(np.minimum(both, gaussian(noise, orders)))


def _removed_and_added(rate: float, noise: float, orders: tuple[float, ...]) -> Array:
    """Over the data set without the record (Mironov 2017, proposition 11, with p = q = 2)."""
    every = np.asarray(orders)
    # Only where both are integers above 1, which are quick to compute.
    used = (2 * every == np.floor(2 * every)) & (every > 1) & (every <= _LARGEST_HALVED_ORDER)
    found = np.full(len(orders), math.inf)
    if np.any(used):
        order = every[used]
        first = np.asarray(sampled_gaussian(rate, noise, tuple(2 * order)))
        second = np.asarray(sampled_gaussian(rate, noise, tuple(2 * order - 1)))
        found[used] = (order - 0.5) / (order - 1) * first + second
    return found


def _public_mixture(rate: float, inner: Array, orders: tuple[float, ...]) -> Array:
    order = np.asarray(orders) - 1
    log_a = order * inner
    near = np.log1p(rate * np.expm1(np.minimum(log_a, 1.0)))
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + np.maximum(log_a, 1.0))
    found = np.where(log_a > 1, far, near) / order
    return np.asarray(np.maximum(found, np.minimum(inner, math.ulp(0.0))))


_ETA = {"logarithmic": 0.0, "geometric": 1.0}


def _selected(form: Selected, inner: Array, orders: tuple[float, ...]) -> Array:
    """Returns the RDP of the best of several runs (PS22), from that of one run."""
    order = np.asarray(orders)
    if form.distribution == "poisson":
        found = _poisson(form.expected_runs, inner, order)
    else:
        found = _negative_binomial(form, inner, order)
    # Renyi divergence grows with the order, so that a larger order bounds a smaller one.
    descending = np.argsort(-order)
    found[descending] = np.minimum.accumulate(found[descending])
    return found


def _negative_binomial(form: Selected, inner: Array, order: Array) -> Array:
    eta, mean = _ETA[form.distribution], form.expected_runs
    # The theorem lets a second order pay for the number of runs; any order will do.
    inverse = log_inverse_gamma(form.distribution, mean)
    price = float(np.min((1 - 1 / order) * inner + inverse / order))
    return np.asarray(inner + (1 + eta) * price + math.log(mean) / (order - 1))


def log_inverse_gamma(distribution: str, mean: float) -> float:
    """Returns log(1/gamma) of a number of runs that is `geometric` or `logarithmic`."""
    return math.log(mean) if _ETA[distribution] else _logarithmic(mean)


def _logarithmic(mean: float) -> float:
    """Log(1/gamma), from a mean of (1/gamma - 1) / log(1/gamma) above 1; rounded upwards."""
    low, high = 0.0, 2 * math.log(mean) + 2
    for _ in range(200):
        middle = (low + high) / 2
        # log((e^x - 1) / x), without overflow
        log_mean = middle + math.log(-math.expm1(-middle) / middle) if middle else 0.0
        low, high = (middle, high) if log_mean < math.log(mean) else (low, middle)
    return high


def _poisson(mean: float, inner: Array, order: Array) -> Array:
    allowed = np.log1p(1 / (order - 1))
    # delta of one run at each allowed epsilon (Canonne, Kamath, Steinke 2020, proposition 12)
    with np.errstate(invalid="ignore"):
        exponents = (order - 1) * (inner - allowed[:, None] + np.log1p(-1 / order))
    log_delta = np.min(np.where(np.isinf(inner), 0.0, exponents - np.log(order)), axis=1)
    delta = np.minimum(np.exp(np.minimum(log_delta, 0.0)), _total_variation(inner))
    return np.asarray(inner + mean * delta + math.log(mean) / (order - 1))


def _total_variation(inner: Array) -> float:
    """Bretagnolle, Huber 1979, from the Kullback-Leibler divergence that RDP bounds."""
    return math.sqrt(-math.expm1(-float(np.min(inner))))
