"""How much noise a target epsilon needs, by the same accountant that certifies it."""

from __future__ import annotations

import math

from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled

RELATIVE_TOLERANCE = 1e-5
"""How far the noise may lie above the smallest that keeps the target."""

_SMALLEST, _LARGEST = 1e-3, 1e12


def noise_multiplier(*, epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """Returns a noise multiplier that keeps the target, and hardly more than the smallest.

    The mechanism is `steps` rounds of a Gaussian on Poisson samples; neighbours differ by adding
    or removing one record; epsilon is that of `hushdoc.accounting.rdp`.

    Args:
        epsilon: The target, above 0.
        delta: Between 0 and 1.
        sampling_rate: Above 0 and at most 1, per step.
        steps: From 1.

    Raises:
        ValueError: An argument is out of its range, or no noise keeps the target.

    Example:
        >>> noise = noise_multiplier(epsilon=8, delta=1e-5, sampling_rate=1 / 7, steps=350)
        >>> round(noise, 3)
        1.898
    """
    _require_between("epsilon", epsilon, 0.0, math.inf)
    _require_between("delta", delta, 0.0, 1.0)
    _require_between("sampling_rate", sampling_rate, 0.0, math.nextafter(1.0, 2.0))
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps is {steps!r}; expected a whole number from 1.")

    def keeps(noise: float) -> bool:
        step = PoissonSampled(sampling_rate=sampling_rate, event=Gaussian(noise_multiplier=noise))
        return rdp.epsilon(Composed(event=step, count=steps), delta) <= epsilon

    low = high = 1.0
    while not keeps(high):
        low, high = high, high * 2
        if high > _LARGEST:
            raise ValueError(
                f"No noise multiplier up to {_LARGEST:g} gives epsilon {epsilon!r} at delta "
                f"{delta!r}; raise epsilon or delta."
            )
    while low == high or keeps(low):
        low, high = low / 2, low
        if high < _SMALLEST:
            return high
    while high > low * (1 + RELATIVE_TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _require_between(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not low < value < high:
        raise ValueError(f"{name} is {value!r}; expected more than {low:g} and less than {high:g}.")
