"""Chooses the exponential tilt and the FFT grid for a PLD query, and answers it.

The query asks for epsilon at a delta, or for delta at an epsilon. RDP gives a first guess, a coarse
grid improves it and a fine one answers it. A cell that is spread over its ends adds (spacing^2 /
12) (1 + theta) to the epsilon of every step, with theta the tilt that makes epsilon the mean loss;
that gives the spacing for a wanted precision.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from hushdoc.accounting.curve import Curve, Ring, curve, ring
from hushdoc.accounting.dominating import Cells, Losses, cells, exchanged, optimistic, pessimistic
from hushdoc.accounting.gaussian_mixture import log_mills
from hushdoc.accounting.normal_form import NormalForm, PublicMixture, Step
from hushdoc.accounting.simplified_forms import count_of, executions, steps_of
from hushdoc.accounting.spectrum import Cumulants, StepLosses, cumulants
from hushdoc.accounting.work import Work

FINE = 1e-4
"""Targeted relative error of epsilon."""

SMALLEST_DELTA = 1e-100
"""Below, Renyi accounting answers alone: masses at large losses leave the range of doubles."""

_COARSE = 3e-3

_MOST_CELLS = 1 << 18
_LONGEST_RING = 1 << 20
_LEFT_OUT = 1e-6
"""Share of delta that all steps together may leave at infinity."""

_MOST_LOOKS = 8
_SHORTEST_RING = 256
_MOST_CLIPPED = 1e-2
_COARSEST_SPACING = 16.0
_LEAST_EPSILON = 0.01
"""Queries for delta at an epsilon below it use the grid of this one."""

_UNITS_OF_A_CELL = 5


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A query, with a guess of its answer, and the tilt that makes epsilon about the mean loss."""

    epsilon: float
    delta: float
    asks_delta: bool
    theta: float


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds on the smallest epsilon (or delta) that holds.

    Attributes:
        lower: No smaller one holds; 0 where nothing is known, or no lower bound was asked for.
        upper: This one holds.
    """

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Grid:
    """Every step's losses at one spacing; cells serve both directions."""

    spacing: float
    steps: dict[Step, Cells | Losses]


@dataclass(frozen=True, kw_only=True, eq=False)
class _View:
    """One direction: the losses of its steps, and the ring on which they are composed."""

    added: bool
    losses: StepLosses
    ring: Ring


@dataclass(frozen=True, kw_only=True, eq=False)
class _Look:
    """Both directions on one grid, or one where they agree; `width` is that of the longer ring."""

    grid: _Grid
    views: list[_View]
    width: float


def bounds(
    form: NormalForm,
    guess: Guess,
    *,
    precision: float = FINE,
    lower: bool = False,
    share: int = 1,
    work: Work,
) -> Bounds:
    """Returns bounds on what a query asks, of a form of Step, Product and PublicMixture only.

    A lower bound exists only where every step is exact; `share` forms share the time for one.
    """
    found = 1.0 if guess.asks_delta else math.inf
    look = _look(form, guess, _COARSE, share=share, last=None, work=work)
    for _ in range(_MOST_LOOKS):
        if look is None:
            return Bounds(lower=0.0, upper=found)
        found = min(found, _upper(form, look, guess, work))
        if found == 0:
            return Bounds(lower=0.0, upper=0.0)
        last, guess = guess, _better(guess, found, look)
        if _is_near(last, guess) and look.width >= _SHORTEST_RING * look.grid.spacing:
            break
        look = _look(form, guess, _COARSE, share=share, last=look, work=work)
    look = _look(form, guess, precision, share=share, last=look, work=work)
    if look is None:
        return Bounds(lower=0.0, upper=found)
    upper = min(found, _upper(form, look, guess, work))
    exact = lower and all(step.exact for step in look.grid.steps)
    return Bounds(lower=min(_lower(form, look, guess, work), upper) if exact else 0.0, upper=upper)


def _better(guess: Guess, found: float, look: _Look) -> Guess:
    theta = max(view.ring.theta for view in look.views)
    if guess.asks_delta:
        return dataclasses.replace(guess, delta=max(found, SMALLEST_DELTA), theta=theta)
    known = min(found, guess.epsilon)
    return dataclasses.replace(guess, epsilon=max(known, 1e-200), theta=theta)


def _is_near(last: Guess, guess: Guess) -> bool:
    """Whether a grid for the last guess is about as fine as one for this guess."""
    return (
        guess.epsilon > 0.6 * last.epsilon
        and guess.delta > 1e-3 * last.delta
        and guess.theta < 1 + 2 * last.theta
    )


def _look(
    form: NormalForm, guess: Guess, precision: float, *, share: int, last: _Look | None, work: Work
) -> _Look | None:
    """Both directions on a grid as fine as time allows; None where any useful grid is too slow."""
    steps = steps_of(form)
    cells_share = share * sum(step.size for step in steps) * (8 if precision >= _COARSE else 1)
    most_cells = max(256, _MOST_CELLS // cells_share)
    longest = max(1024, _LONGEST_RING // (share * (len(steps) + count_of(form, PublicMixture))))
    spacing = _spacing(form, guess, precision)
    if last is not None:
        # A thousand points on the ring resolve its shape.
        spacing = min(spacing, last.width / 1024)
    tilts = {} if last is None else {view.added: view.ring.theta for view in last.views}
    while spacing < _COARSEST_SPACING:
        grid = _grid(form, guess, spacing, most_cells, work)
        views = _views(form, grid, guess, tilts)
        length = max(view.ring.length for view in views)
        if length <= longest:
            return _Look(grid=grid, views=views, width=length * grid.spacing)
        spacing = 2 * grid.spacing
    return None


def _grid(form: NormalForm, guess: Guess, spacing: float, most: int, work: Work) -> _Grid:
    """Every step's losses, on a coarser grid where there would be too many."""
    steps = steps_of(form)
    cut = max(_LEFT_OUT * guess.delta / executions(form), 1e-290)
    found: dict[Step, Cells | Losses] = {}
    while len(found) < len(steps):
        spacing = _aligned(spacing, steps)
        for step in steps:
            make = exchanged if step.change == "exchanged" else cells
            part = make(step, spacing, cut, most)
            if part is None:
                spacing, found = 2 * spacing, {}
                break
            found[step] = part
            num_cells = len(part.mass if isinstance(part, Losses) else part.present)
            work.add(_UNITS_OF_A_CELL * num_cells * (step.size + 1))
    return _Grid(spacing=spacing, steps=found)


def _spacing(form: NormalForm, guess: Guess, precision: float) -> float:
    error = precision * guess.epsilon
    if guess.asks_delta:
        error = 10 * precision * min(1 / (1 + guess.theta), max(guess.epsilon, _LEAST_EPSILON))
    return math.sqrt(12 * error / (executions(form) * (1 + guess.theta)))


def _aligned(spacing: float, steps: set[Step]) -> float:
    """A slightly smaller spacing that has the least loss of a step on its grid.

    Samples without the record concentrate there, and mass on the grid is not moved.
    """
    ends = [
        -step.size * math.log1p(-step.rate)
        for step in steps
        if step.rate < 1 and step.change == "removed"
    ]
    least = max(ends, default=0.0)
    return least / math.ceil(least / spacing) if least > spacing else spacing


def _views(form: NormalForm, grid: _Grid, guess: Guess, tilts: dict[bool, float]) -> list[_View]:
    """Both directions, or one where they agree."""
    symmetric = all(step.rate == 1 or step.change != "removed" for step in grid.steps)
    views = []
    for added in (False,) if symmetric else (False, True):
        losses = {
            step: part if isinstance(part, Losses) else pessimistic(part, added=added)
            for step, part in grid.steps.items()
        }
        start = tilts.get(added, guess.theta)
        theta = _tilt(form, losses, grid.spacing, guess, start)
        where = ring(form, losses, grid.spacing, theta)
        views.append(_View(added=added, losses=losses, ring=where))
    return views


def _upper(form: NormalForm, look: _Look, guess: Guess, work: Work) -> float:
    spacing = look.grid.spacing
    work.add(_units_of_curves(form, look))
    curves = (curve(form, view.losses, spacing, view.ring) for view in look.views)
    return max(_read(found, guess) for found in curves)


def _units_of_curves(form: NormalForm, look: _Look) -> int:
    """One for each point of each transform."""
    transforms = 1 + len(look.grid.steps) + count_of(form, PublicMixture)
    return sum(view.ring.length for view in look.views) * transforms


def _lower(form: NormalForm, look: _Look, guess: Guess, work: Work) -> float:
    found = [0.0]
    work.add(_units_of_curves(form, look))
    for view in look.views:
        losses = {
            step: part if isinstance(part, Losses) else optimistic(part, added=view.added)
            for step, part in look.grid.steps.items()
        }
        below = curve(form, losses, look.grid.spacing, view.ring, optimistic=True)
        # Clipped mass counts twice, so there may be little of it only.
        if below.constant <= _MOST_CLIPPED:
            found.append(_read(below, guess))
    return max(found)


def _read(found: Curve, guess: Guess) -> float:
    return found.delta(guess.epsilon) if guess.asks_delta else found.epsilon(guess.delta)


def _tilt(
    form: NormalForm, losses: StepLosses, spacing: float, guess: Guess, start: float
) -> float:
    """The tilt that makes the queried point typical, within a few percent; from 0."""

    def is_short(theta: float) -> bool:
        distribution = cumulants(form, losses, spacing, theta)
        if guess.asks_delta:
            return distribution.mean < guess.epsilon
        return _log_delta(distribution, theta) > math.log(guess.delta)

    if not is_short(0.0):
        return 0.0
    low, high = 0.0, min(max(start, 1e-6), 20 / spacing)
    while is_short(high) and high < 20 / spacing:
        low, high = high, 2 * high
    while low == 0 and high > 1e-9 and not is_short(high / 2):
        high /= 2
    low = max(low, high / 2)
    for _ in range(4):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return high


def _log_delta(distribution: Cumulants, theta: float) -> float:
    """Log delta at the mean of the tilted losses, in the normal approximation."""
    deviation = math.sqrt(distribution.variance)
    ends = np.asarray([theta * deviation, (1 + theta) * deviation])
    mills = np.exp(log_mills(ends))
    share = max(float(mills[0] - mills[1]) / math.sqrt(2 * math.pi), SMALLEST_DELTA)
    return distribution.log_moment - theta * distribution.mean + math.log(share)
