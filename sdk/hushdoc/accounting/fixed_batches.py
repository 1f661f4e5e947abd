"""The privacy loss of one noisy sum over a batch of fixed size, on a grid: what costs no less.

Balle, Barthe, Gaboardi 2018 (arXiv:1807.01647), theorem 10: with q the share of the records that is
drawn, and D the hockey-stick divergence of two records' sums, at a threshold t = e^epsilon from 1

    delta'(t) <= q D(1 + (t - 1) / q).

Below 1 the curve follows from that above it, because the relation is symmetric: the mass at -l is
the mass at l times e^-l. Each side is reached where everybody else is the opposite of the record.
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


def exchanged(step: Step, spacing: float, cut: float, most: int) -> Losses | None:
    """Returns a pair that costs no less, or None where it would need too many points.

    Args:
        step: Whose change is "exchanged".
        spacing: Of the losses.
        cut: How much mass may be left at infinity.
        most: How many points may be used.
    """
    distance = 1 / step.noise
    far = math.sqrt(2 * max(1.0, -math.log(cut))) + 1
    largest = distance * (distance / 2 + far)
    if largest < LARGEST_LOSS:
        largest = math.log1p(step.rate * math.expm1(largest))
    count = math.ceil(min(largest, LARGEST_LOSS) / spacing) + 1
    if 2 * count > most:
        return None
    losses = np.arange(count + 1, dtype=np.float64) * spacing
    inner = np.log1p(np.expm1(losses) / step.rate)
    values = step.rate * _gaussian_curve(inner, distance)
    positive = _masses(values, spacing)
    mass = np.zeros(2 * count + 1)
    mass[count + 1 :] = positive
    mass[:count] = (positive * np.exp(-losses[1:]))[::-1]
    infinite = float(values[-1])
    mass[count] = max(0.0, 1 - float(np.sum(mass)) - infinite)
    return Losses(first=-count, mass=mass, at_infinity=infinite)


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
