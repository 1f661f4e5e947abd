"""Privacy loss distributions (PLD): the exact accountant, with a lower and an upper bound.

Each step is replaced by a pair of distributions on a grid that costs no less, for removing a
record and for adding one (`dominating`); Fourier transforms compose the losses of all steps
(`spectrum`); the larger of both directions counts. The errors of the grid, the tails and rounding
are added to delta (`curve`), so that the upper bound holds on any grid. The lower bound shows how
much a finer grid could still gain.

No result exceeds the RDP bound, which also answers alone where no privacy loss distribution of a
mechanism is known (best of several runs) or its computation would take too long.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hushdoc.accounting import loss_bounds, rdp
from hushdoc.accounting.loss_bounds import FINE, SMALLEST_DELTA, Bounds, Guess
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.accounting.normal_form import NormalForm, normal_form
from hushdoc.accounting.rdp import ORDERS, ROUNDING, require_delta
from hushdoc.accounting.simplified_forms import alternatives
from hushdoc.accounting.work import Work

_REFINEMENTS = 3
_REFINEMENT_GAINS = 1.1
"""Beyond this factor of epsilon no finer grid helps, unless this one is limited by time."""

_UNITS_OF_A_QUERY = 100_000
"""Work of finding the grid, however small it is."""

_LARGEST_EPSILON = 2000.0
"""Above it RDP is close enough, and losses would leave the range of doubles."""


def epsilon(mechanism: Mechanism, delta: float, *, adjacency: str = "add-remove") -> float:
    """Returns an epsilon for which the mechanism is (epsilon, delta)-DP, close to the smallest.

    Args:
        mechanism: What ran.
        delta: From 0 to 1. At 0 only a mechanism that reads nothing has a finite epsilon.
        adjacency: How neighbours differ, one of ADJACENCIES.

    Raises:
        ValueError: delta is not a probability, or the adjacency is unknown.

    Example:
        >>> from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
        >>> step = PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=1.5))
        >>> round(epsilon(Composed(event=step, count=350), 1 / 389), 2)
        7.01
    """
    require_delta(delta)
    return _bounds(mechanism, float(delta), adjacency, level=0, lower=False).upper


def bounds(mechanism: Mechanism, delta: float, *, adjacency: str = "add-remove") -> Bounds:
    """Returns bounds on the smallest epsilon; arguments and errors are those of `epsilon`."""
    require_delta(delta)
    return _bounds(mechanism, float(delta), adjacency, level=0, lower=True)


def delta(mechanism: Mechanism, epsilon: float, *, adjacency: str = "add-remove") -> float:
    """Returns a delta at which (epsilon, delta)-DP holds, close to the smallest; see `epsilon`."""
    _require_epsilon(epsilon)
    return _delta(mechanism, float(epsilon), adjacency)


def holds(
    mechanism: Mechanism, epsilon: float, delta: float, *, adjacency: str = "add-remove"
) -> bool:
    """Returns whether (epsilon, delta)-DP is proven; the grid is refined where it is close.

    Arguments and errors are those of `epsilon`; epsilon below 0 is a ValueError, too.
    """
    _require_epsilon(epsilon)
    if rdp.epsilon(mechanism, delta, adjacency=adjacency) <= epsilon:
        return True
    return decide(mechanism, epsilon, delta, adjacency=adjacency, work=Work())[0]


def decide(
    mechanism: Mechanism, claimed: float, delta: float, *, adjacency: str, work: Work
) -> tuple[bool, float]:
    """Returns whether (claimed, delta)-DP is proven, and what `epsilon` returns.

    What was computed before counts as if it were computed again, so that the answer does not
    depend on it. LimitExceededError where `work` is exceeded.
    """
    least = math.inf
    for level in range(1 + _REFINEMENTS):
        found, units = _counted_bounds(
            mechanism, float(delta), adjacency, level=level, lower=level > 0
        )
        work.add(_UNITS_OF_A_QUERY + units)
        least = found.upper if level == 0 else least
        if found.upper <= claimed:
            return True, least
        if found.lower > claimed or found.upper > claimed * _REFINEMENT_GAINS:
            return False, least
    return False, least


def _require_epsilon(epsilon: float) -> None:
    if not epsilon >= 0:
        raise ValueError(f"epsilon is {epsilon!r}; expected a number from 0.")


def _bounds(
    mechanism: Mechanism, delta: float, adjacency: str, *, level: int, lower: bool
) -> Bounds:
    return _counted_bounds(mechanism, delta, adjacency, level=level, lower=lower)[0]


@lru_cache(maxsize=512)
def _counted_bounds(
    mechanism: Mechanism, delta: float, adjacency: str, *, level: int, lower: bool
) -> tuple[Bounds, int]:
    """The bounds, and the work that they took."""
    form = normal_form(mechanism, adjacency)
    renyi = rdp.epsilon_from_rdp(rdp.form_rdp(form), delta)
    if not 0 < renyi <= _LARGEST_EPSILON or delta < SMALLEST_DELTA:
        return Bounds(lower=0.0, upper=renyi), 0
    choices = alternatives(form)
    if choices is None:
        return Bounds(lower=0.0, upper=renyi), 0
    work = Work()
    upper = least = 0.0
    for price, choice in sorted(
        ((rdp.epsilon_from_rdp(rdp.form_rdp(choice), delta), choice) for choice in choices),
        key=lambda pair: -pair[0],
    ):
        if price > upper:
            answer = _form_bounds(choice, delta, level, lower, share=len(choices), work=work)
            upper = max(upper, answer.upper * (1 + ROUNDING))
            least = max(least, answer.lower * (1 - ROUNDING))
    return Bounds(lower=min(least, upper, renyi), upper=min(upper, renyi)), work.done


def _form_bounds(
    form: NormalForm, delta: float, level: int, lower: bool, *, share: int, work: Work
) -> Bounds:
    spent = rdp.form_rdp(form)
    renyi = rdp.epsilon_from_rdp(spent, delta)
    theta = _cheapest_order(spent - math.log(delta) / (np.asarray(ORDERS) - 1)) - 1
    guess = Guess(epsilon=renyi, delta=delta, asks_delta=False, theta=theta)
    return loss_bounds.bounds(
        form, guess, precision=FINE / 16**level, lower=lower, share=share, work=work
    )


def _cheapest_order(prices: np.typing.NDArray[np.float64]) -> float:
    return ORDERS[int(np.argmin(prices))]


@lru_cache(maxsize=512)
def _delta(mechanism: Mechanism, epsilon: float, adjacency: str) -> float:
    form = normal_form(mechanism, adjacency)
    renyi = rdp.delta_from_rdp(rdp.form_rdp(form), epsilon)
    choices = alternatives(form)
    if choices is None or epsilon > _LARGEST_EPSILON or not renyi > SMALLEST_DELTA:
        return renyi
    found = max(_form_delta(choice, epsilon, share=len(choices)) for choice in choices)
    # What is too small for a double is not zero: that would be a guarantee without exceptions.
    return min(renyi, max(found * (1 + ROUNDING), math.ulp(0.0)))


def _form_delta(form: NormalForm, epsilon: float, share: int) -> float:
    spent = rdp.form_rdp(form)
    renyi = rdp.delta_from_rdp(spent, epsilon)
    theta = _cheapest_order((np.asarray(ORDERS) - 1) * (spent - epsilon)) - 1
    guess = Guess(epsilon=epsilon, delta=max(renyi, SMALLEST_DELTA), asks_delta=True, theta=theta)
    return loss_bounds.bounds(form, guess, share=share, work=Work()).upper
