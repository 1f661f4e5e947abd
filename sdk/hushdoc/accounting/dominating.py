"""Dominating pairs of one noisy sum on a grid: distributions that cost no less, or no more.

The papers:

    DGK22   Doroshenko, Ghazi, Kamath, Kumar, Manurangsi: Connect the Dots: Tighter Discrete
            Approximations of Privacy Loss Distributions, 2022, arXiv:2207.04380.
    ZDW22   Zhu, Dong, Wang: Optimal Accounting of Differential Privacy via Characteristic
            Function, 2022, arXiv:2106.08567: dominating pairs, and that they compose.
    CGS24   Choquette-Choo, Ganesh, Steinke, Thakurta: Privacy Amplification for Matrix
            Mechanisms, 2024, arXiv:2310.15526: several records along one line are the worst case.
    BBG18   Balle, Barthe, Gaboardi: Privacy Amplification by Subsampling, 2018, arXiv:1807.01647,
            theorem 10: batches of a fixed size.

Let P be N(b, s^2) with b from Bin(k, q) and Q be N(0, s^2): the sum with and without k records. The
loss log P/Q grows with the sum, so an interval between two grid losses is an interval of sums, a
cell, and its mass under P and Q is a difference of normal tails. Spreading a cell over its two ends
so that both masses stay is the tightest pessimistic pair (DGK22): the hockey-stick curve becomes
its chords. Merging a cell into one point is post-processing, so the true curve lies above the two
tangents at the ends of each chord; the curve through the grid that lies below all those corners is
the optimistic pair. Both err by the square of the spacing.

Rounding. A mass is a difference of tails and loses digits where cells are narrow. What may be lost
is bounded cell by cell, and the pessimistic pair moves that much of P to the upper end.

Batches of a fixed size (`exchanged`). With q the share of the records that is drawn, and D the
hockey-stick divergence of two records' sums, at a threshold t = e^epsilon from 1 (BBG18)

    delta'(t) <= q D(1 + (t - 1) / q).

Below 1 the curve follows from that above it, because the relation is symmetric: the mass at -l is
the mass at l times e^-l. Each side is reached where every other record is the opposite of this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.gaussian_mixture import (
    EPS,
    LARGEST_LOSS,
    log_ratio,
    normal_cells,
    range_of,
    replaced_log_ratio,
    replaced_sums_at,
    sums_at,
    tail,
    weights_of,
)
from hushdoc.accounting.normal_form import Step

Array = NDArray[np.float64]

_MOST_SWEEPS = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Losses:
    """Mass of the first distribution of a pair at multiples of the spacing.

    Mass where the second has none is `at_infinity`; of an optimistic pair, clipping may have
    enlarged `mass` by `excess`.
    """

    first: int
    mass: Array
    at_infinity: float = 0.0
    excess: float = 0.0

    @cached_property
    def ends(self) -> tuple[int, int] | None:
        """The places of the first and the last mass, if there is any; what is no number counts."""
        used = np.flatnonzero(self.mass)
        return (int(used[0]), int(used[-1])) if len(used) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Masses of P (records present) and Q (absent) between grid losses from `first` spacings on.

    The slacks bound the rounding errors of both masses, and how far losses may lie outside of their
    cell. `outside` is the mass of P below and above all cells, and of Q below and above.
    """

    first: int
    spacing: float
    present: Array
    absent: Array
    present_slack: Array
    absent_slack: Array
    loss_slack: Array
    outside: tuple[float, float, float, float]


def cells(step: Step, spacing: float, cut: float, most: int) -> Cells | None:
    """Returns a step's cells, at most `cut` of the mass outside on each side; None above `most`."""
    weights = weights_of(step)
    low, high = range_of(weights, step.noise, cut)
    if step.change == "replaced":
        low, log_ratio_at, sums_of = -high, replaced_log_ratio, replaced_sums_at
    else:
        log_ratio_at, sums_of = log_ratio, sums_at
    ends = log_ratio_at(np.asarray([low, high]), weights, step.noise)
    first = math.floor(max(float(ends[0]), -LARGEST_LOSS) / spacing)
    last = math.ceil(min(float(ends[1]), LARGEST_LOSS) / spacing)
    if last - first > most:
        return None
    losses = np.arange(first, last + 1, dtype=np.float64) * spacing
    sums, loss_slack = sums_of(losses, weights, step.noise)
    present = _distribution(sums, dict(enumerate(weights.tolist())), step.noise)
    absent = _distribution(sums, _absent_weights(step), step.noise)
    return Cells(
        first=first,
        spacing=spacing,
        present=present.mass,
        absent=absent.mass,
        present_slack=present.slack,
        absent_slack=absent.slack,
        loss_slack=loss_slack[1:] + loss_slack[:-1],
        outside=(present.below, present.above, absent.below, absent.above),
    )


def _absent_weights(step: Step) -> dict[int, float]:
    """Where the neighbour's records lie."""
    return {0: 1 - step.rate, -1: step.rate} if step.change == "replaced" else {0: 1.0}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Distribution:
    """Masses of a distribution in cells, their rounding errors, and the mass outside."""

    mass: Array
    slack: Array
    below: float
    above: float


def _distribution(sums: Array, weights: dict[int, float], noise: float) -> _Distribution:
    """A mixture of normal distributions, each with its weight around its shift."""
    mass, slack = np.zeros(len(sums) - 1), np.zeros(len(sums) - 1)
    below = above = 0.0
    for shift, weight in weights.items():
        if weight > 0:
            part, rounding, under, over = normal_cells((sums - shift) / noise)
            mass += weight * part
            slack += weight * rounding
            below, above = below + weight * under, above + weight * over
    # A mass near the smallest double is off by a number of these, whatever its size.
    slack += (4 + 2 * len(weights)) * (EPS * mass + math.ulp(0.0))
    return _Distribution(mass=mass, slack=slack, below=below, above=above)


def pessimistic(found: Cells, *, added: bool) -> Losses:
    """Returns a pair that costs no less, for a record that is removed, or for one that is added."""
    way = _direction(found, added=added)
    upper = np.minimum(way.first_mass, way.upper + way.slack)
    mass = np.zeros(len(upper) + 1)
    mass[:-1] += way.first_mass - upper
    mass[1:] += upper
    mass[0] += way.below
    return Losses(first=way.first, mass=mass, at_infinity=way.above)


def optimistic(found: Cells, *, added: bool) -> Losses:
    """Returns a pair that costs no more, for a record that is removed, or for one that is added.

    Mass below all cells is dropped. That of some topmost cells and above them is moved down to one
    point of the grid, so that the curve reaches 0 without a bend.
    """
    way = _direction(found, added=added)
    upper = np.clip(way.upper - way.slack, 0.0, way.first_mass)
    top, topmost = _top(way.first_mass, way.above)
    upper[top:] = 0.0
    lower = way.first_mass - upper
    lower[top:] = 0.0
    mass = np.zeros(len(upper) + 1)
    mass[:-1] += lower
    mass[1:] += upper
    mass[top] += topmost
    growth = math.expm1(found.spacing)
    change = np.diff(_depths(lower, upper, growth))
    mass -= change[1:] / growth - change[:-1] * (1 + growth) / growth
    _make_convex(mass, growth)
    excess = -float(np.sum(np.minimum(mass, 0.0)))
    return Losses(first=way.first, mass=np.maximum(mass, 0.0), excess=excess)


def _top(mass: Array, above: float) -> tuple[int, float]:
    """The cell from which on the mass is at least half of that in the cell before, and it."""
    sums = np.cumsum(mass[::-1])[::-1] + above
    enough = np.flatnonzero(sums[1:] >= mass[:-1] / 2)
    top = int(enough[-1]) + 1 if len(enough) else 0
    return top, float(sums[top])


def _make_convex(mass: Array, growth: float) -> None:
    """Removes points at which the curve bends down, which lowers it there and nowhere else."""
    to_left = 1 / (2 + growth)  # keeps the mass of both distributions
    for _ in range(_MOST_SWEEPS):
        # At the lower end the whole line below may come down, which keeps its slope.
        mass[1] += min(mass[0], 0.0) * (1 + growth)
        mass[0] = max(mass[0], 0.0)
        bent = 1 + np.flatnonzero(mass[1:-1] < 0)
        if len(bent) == 0:
            break
        missing = mass[bent]
        mass[bent] = 0.0
        np.add.at(mass, bent + 1, missing * (1 - to_left))
        np.add.at(mass, bent - 1, missing * to_left)


def _depths(lower: Array, upper: Array, growth: float) -> Array:
    """How far the curve must be lowered at each point of the grid, and at one more on each side."""
    weight = lower * (1 + growth) + upper
    # The share first: a product of two masses may be too small for a double.
    corner = lower * (upper / np.where(weight > 0, weight, 1.0)) * growth
    depth = np.zeros(len(upper) + 3)
    depth[1:-2] = corner
    depth[2:-1] = np.maximum(depth[2:-1], corner)
    depth[0] = depth[1]
    return depth


@dataclass(frozen=True, kw_only=True, eq=False)
class _Direction:
    first: int
    first_mass: Array
    upper: Array
    slack: Array
    below: float
    above: float


def _direction(found: Cells, *, added: bool) -> _Direction:
    """Which distribution comes first, the mass at the upper end of each cell, its error."""
    count = len(found.present)
    below, above, absent_below, absent_above = found.outside
    if added:
        first = -(found.first + count)
        one, one_slack = found.absent[::-1], found.absent_slack[::-1]
        other, other_slack = found.present[::-1], found.present_slack[::-1]
        loss_slack = found.loss_slack[::-1]
        below, above = absent_above, absent_below
    else:
        first, loss_slack = found.first, found.loss_slack
        one, one_slack = found.present, found.present_slack
        other, other_slack = found.absent, found.absent_slack
    ratio = np.exp((first + np.arange(count)) * found.spacing)
    share = -math.expm1(-found.spacing)
    upper = np.clip((one - ratio * other) / share, 0.0, one)
    slack = (one_slack + ratio * other_slack + one * loss_slack) / share
    return _Direction(
        first=first,
        first_mass=one,
        upper=upper,
        slack=slack,
        below=below,
        above=above,
    )


def exchanged(step: Step, spacing: float, cut: float, most: int) -> Losses | None:
    """Returns a pair that costs no less for a step of fixed-size batches (change "exchanged").

    At most `cut` of the mass is at infinity; None where more than `most` points are needed.
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
