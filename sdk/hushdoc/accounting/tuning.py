"""What it costs to release the best of a random number of runs, in Renyi terms.

Papernot, Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy",
arXiv:2110.03620: theorem 2 for the truncated negative binomial (eta = 1 is the geometric and
eta = 0 the logarithmic distribution) and theorem 6 for the Poisson distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.steps import Selected

Array = NDArray[np.float64]

_ETA = {"logarithmic": 0.0, "geometric": 1.0}


def selected(form: Selected, inner: Array, orders: tuple[float, ...]) -> Array:
    """Returns the RDP of the best of several runs for each order.

    Args:
        form: How many runs; its event is not looked at.
        inner: RDP of one run for each order.
        orders: All above 1.
    """
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
    log_inverse_gamma = math.log(mean) if eta else _logarithmic(mean)
    # The theorem lets a second order pay for the number of runs; any order will do.
    price = float(np.min((1 - 1 / order) * inner + log_inverse_gamma / order))
    return np.asarray(inner + (1 + eta) * price + math.log(mean) / (order - 1))


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
