"""The privacy loss of one noisy sum where a record is replaced, on a grid: what costs no less.

Balle, Barthe, Gaboardi 2018 (arXiv:1807.01647), theorem 2: with q the probability to be sampled,
a threshold t = e^epsilon from 1, T = 1 + (t - 1) / q and b = t / T,

    delta'(t) <= q ((1 - b) D_T(with || without) + b D_T(with || with another)).

Below 1 the curve follows from that above it, because the relation is symmetric: the mass at -l is
the mass at l times e^-l. In samples of a fixed size "without" means that yet another record has
taken the place, so both terms are those of two records apart (theorem 10).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.dominating import Losses
from hushdoc.accounting.mixture import EPS, LARGEST_LOSS
from hushdoc.accounting.normal import tail
from hushdoc.accounting.steps import Step

Array = NDArray[np.float64]


def replacing(step: Step, spacing: float, cut: float, most: int) -> Losses | None:
    """Returns a pair that costs no less, or None where it would need too many points.

    Args:
        step: Whose change is "replaced" or "exchanged".
        spacing: Of the losses.
        cut: How much mass may be left at infinity.
        most: How many points may be used.
    """
    # Two records are this far apart, in deviations of the noise.
    distance = (2 if step.change == "replaced" else 1) / step.noise
    far = math.sqrt(2 * max(1.0, -math.log(cut))) + 1
    largest = distance * (distance / 2 + far)
    if largest < LARGEST_LOSS:
        largest = math.log1p(step.rate * math.expm1(largest))
    count = math.ceil(min(largest, LARGEST_LOSS) / spacing) + 1
    if 2 * count > most:
        return None
    values = _curve(np.arange(count + 1, dtype=np.float64) * spacing, step, distance)
    positive = _masses(values, spacing)
    mass = np.zeros(2 * count + 1)
    mass[count + 1 :] = positive
    mass[:count] = (positive * np.exp(-np.arange(1, count + 1) * spacing))[::-1]
    infinite = float(values[-1])
    mass[count] = max(0.0, 1 - float(np.sum(mass)) - infinite)
    return Losses(first=-count, mass=mass, at_infinity=infinite)


def _curve(losses: Array, step: Step, distance: float) -> Array:
    """The bound at thresholds e^losses, losses from 0; rounded upwards."""
    rate = step.rate
    log_inner = np.log1p(np.expm1(losses) / rate)
    apart = _gaussian_curve(log_inner, distance)
    if step.change == "exchanged":
        return rate * apart
    share = np.exp(losses - log_inner)
    return rate * ((1 - share) * _gaussian_curve(log_inner, distance / 2) + share * apart)


def _gaussian_curve(losses: Array, distance: float) -> Array:
    """The hockey-stick curve of N(distance, 1) and N(0, 1), rounded upwards."""
    z = losses / distance - distance / 2
    first = tail(z)
    second = np.exp(np.minimum(losses, LARGEST_LOSS + 100)) * tail(z + distance)
    rounding = EPS * (8 + z * z + losses) * first
    return np.maximum(first - second, 0.0) + 4 * rounding


def _masses(values: Array, spacing: float) -> Array:
    """Mass at each point but the first, of the convex curve through (or below) these values."""
    growth = math.expm1(spacing)
    steps = np.diff(values, append=values[-1])
    mass = steps[1:] / growth - steps[:-1] * (1 + growth) / growth
    return np.maximum(mass, 0.0)
