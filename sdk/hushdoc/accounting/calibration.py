"""The noise that a target epsilon needs, by the same accountant that certifies it."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context

from hushdoc import arguments
from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled

RELATIVE_TOLERANCE = 1e-5
"""How far the noise may lie above the smallest that meets the target."""

CALIBRATING_ACCOUNTANTS = ("rdp", "pld")

DIGITS = 12
"""Significant digits of a noise multiplier: what was executed is compared with it, and a product
and a quotient of doubles keep these."""

_SMALLEST, _LARGEST = 1e-3, 1e12
_UPWARDS = Context(prec=DIGITS, rounding=ROUND_CEILING)


def noise_multiplier(
    *, epsilon: float, delta: float, sampling_rate: float, steps: int, accountant: str = "rdp"
) -> float:
    """Returns the smallest noise multiplier that meets the target, within RELATIVE_TOLERANCE.

    It has DIGITS significant digits. The mechanism is `steps` rounds of a Gaussian on Poisson
    samples; neighbours differ by adding or removing one record.

    Args:
        epsilon: The target, above 0.
        delta: Between 0 and 1.
        sampling_rate: Above 0 and at most 1, per step.
        steps: From 1.
        accountant: One of CALIBRATING_ACCOUNTANTS, whose epsilon meets the target.

    Raises:
        ValueError: An argument is out of its range, or no noise meets the target.

    Example:
        >>> noise = noise_multiplier(epsilon=8, delta=1e-5, sampling_rate=1 / 7, steps=350)
        >>> round(noise, 3)
        1.898
    """
    if isinstance(sampling_rate, bool) or not 0 < sampling_rate <= 1:
        raise ValueError(f"sampling_rate is {sampling_rate!r}; expected more than 0 and at most 1.")
    arguments.integer(steps, what="steps")

    def run(noise: float) -> Mechanism:
        event = Gaussian(noise_multiplier=_rounded_up(noise))
        step = PoissonSampled(sampling_rate=sampling_rate, event=event)
        return Composed(event=step, count=steps)

    return _rounded_up(calibrated(run, epsilon=epsilon, delta=delta, accountant=accountant))


def calibrated(
    make: Callable[[float], Mechanism],
    *,
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> float:
    """Returns the smallest noise that meets the target, within RELATIVE_TOLERANCE.

    Args:
        make: Returns the mechanism for a noise; more noise must not cost more.
        epsilon: The target, above 0.
        delta: Between 0 and 1.
        accountant: One of CALIBRATING_ACCOUNTANTS, whose epsilon meets the target.
        adjacency: How neighbours differ, one of ADJACENCIES.

    Raises:
        ValueError: An argument is out of its range, or no noise meets the target.

    Example:
        >>> noise = calibrated(lambda s: Gaussian(noise_multiplier=s), epsilon=1, delta=1e-5)
        >>> round(noise, 2)
        3.73
    """
    _require_between("epsilon", epsilon, 0.0, math.inf)
    _require_between("delta", delta, 0.0, 1.0)
    arguments.choice(accountant, CALIBRATING_ACCOUNTANTS, what="accountant")

    def keeps(noise: float, found: Callable[..., float]) -> bool:
        return found(make(noise), delta, adjacency=adjacency) <= epsilon

    # RDP is fast, and a noise that meets the target by RDP meets it by PLD as well.
    renyi = _smallest(lambda noise: keeps(noise, rdp.epsilon), 1.0, 2.0, epsilon, delta)
    if accountant == "rdp":
        return renyi
    return _smallest(lambda noise: keeps(noise, pld.epsilon), renyi, 1.1, epsilon, delta)


def _smallest(
    keeps: Callable[[float], bool], start: float, factor: float, epsilon: float, delta: float
) -> float:
    """A noise that meets the target, within RELATIVE_TOLERANCE of one that does not."""
    low = high = start
    while not keeps(high):
        low, high = high, high * factor
        if high > _LARGEST:
            raise ValueError(
                f"No noise multiplier up to {_LARGEST:g} gives epsilon {epsilon!r} at delta "
                f"{delta!r}; raise epsilon or delta."
            )
    while low == high or keeps(low):
        low, high = low / factor, low
        if high < _SMALLEST:
            return high
    while high > low * (1 + RELATIVE_TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _require_between(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not low < value < high:
        raise ValueError(f"{name} is {value!r}; expected more than {low:g} and less than {high:g}.")


def _rounded_up(noise: float) -> float:
    return float(_UPWARDS.create_decimal(noise))
