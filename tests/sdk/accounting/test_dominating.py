"""Pairs on a grid: their hockey-stick curves lie above and below the exact one, and near it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushdoc.accounting.dominating import Losses, cells, exchanged, optimistic, pessimistic
from hushdoc.accounting.normal_form import Step

mpmath = pytest.importorskip("mpmath")

SPACING = 0.02
STEPS = [
    Step(rate=1.0, noise=1.3),
    Step(rate=0.2, noise=0.8),
    Step(rate=0.03, noise=2.0),
    Step(rate=0.97, noise=0.7),
    Step(rate=1e-6, noise=0.5),
    Step(rate=0.1, noise=1.5, size=5),
    Step(rate=0.3, noise=1.0, change="replaced"),
    Step(rate=1e-4, noise=0.6, change="replaced"),
]


def distributions(step: Step) -> tuple[dict[int, object], dict[int, object]]:
    """Weights of P and Q by shift, in high precision."""
    rate = mpmath.mpf(step.rate)
    present = {
        b: mpmath.binomial(step.size, b) * rate**b * (1 - rate) ** (step.size - b)
        for b in range(step.size + 1)
    }
    if step.change == "replaced":
        return present, {0: 1 - rate, -1: rate}
    return present, {0: mpmath.mpf(1)}


def exact_delta(step: Step, epsilon: float, *, added: bool) -> float:
    """sup over half-lines of P - e^epsilon Q, the sum's ratio growing; 50 digits."""
    with mpmath.workdps(50):
        present, absent = distributions(step)
        noise = mpmath.mpf(step.noise)

        def mass(weights: dict[int, object], x: object) -> object:
            return sum(
                w * mpmath.erfc((x - m) / noise / mpmath.sqrt(2)) / 2 for m, w in weights.items()
            )

        def density(weights: dict[int, object], x: object) -> object:
            return sum(
                w * mpmath.exp((2 * x * m - m * m) / (2 * noise**2)) for m, w in weights.items()
            )

        bound = mpmath.mpf(epsilon) if not added else -mpmath.mpf(epsilon)
        low, high = -60 * noise, 60 * noise + 60
        for _ in range(150):
            x = (low + high) / 2
            if density(present, x) > mpmath.exp(bound) * density(absent, x):
                high = x
            else:
                low = x
        if added:
            found = (1 - mass(absent, x)) - mpmath.exp(epsilon) * (1 - mass(present, x))
        else:
            found = mass(present, x) - mpmath.exp(epsilon) * mass(absent, x)
        return float(max(found, mpmath.mpf(0)))


def delta_of(losses: Losses, epsilon: float) -> float:
    at = (losses.first + np.arange(len(losses.mass))) * SPACING
    above = at > epsilon
    return float(losses.mass[above] @ -np.expm1(epsilon - at[above])) + losses.at_infinity


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_the_exact_curve_lies_between(step: Step, added: bool) -> None:
    found = cells(step, SPACING, 1e-13, 10**6)
    assert found is not None
    above, below = pessimistic(found, added=added), optimistic(found, added=added)
    assert float(np.sum(above.mass)) + above.at_infinity == pytest.approx(1, abs=1e-12)
    for epsilon in (-1.003, -0.2, -0.005, 0.0, 0.011, 0.3, 1.017, 2.0, 5.0):
        exact = exact_delta(step, epsilon, added=added)
        # Summing these masses is good to some 1e-15.
        assert delta_of(above, epsilon) >= exact - 1e-14
        assert delta_of(below, epsilon) - below.excess <= exact + 1e-14
        # A chord errs by at most a quarter of the spacing times the mass of its cell.
        assert delta_of(above, epsilon) - exact <= min(SPACING / 4, step.rate * step.size)
        assert exact - delta_of(below, epsilon) <= min(SPACING / 2, step.rate * step.size)


@pytest.mark.parametrize("noise", [0.7, 3.0])
@pytest.mark.parametrize("rate", [1e-5, 0.25])
def test_exchanged_records_are_bounded_on_both_sides(rate: float, noise: float) -> None:
    """Above 0 the worst case is a removed record, below 0 an added one, two norms apart."""
    found = exchanged(Step(rate=rate, noise=noise, change="exchanged"), SPACING, 1e-13, 10**6)
    assert found is not None
    once = Step(rate=rate, noise=noise)
    for epsilon in (0.0, 0.011, 0.5, 1.5):
        exact = exact_delta(once, epsilon, added=False)
        assert exact - 1e-14 <= delta_of(found, epsilon) <= exact + min(1e-3, rate)
    for epsilon in (-0.011, -0.2):
        exact = exact_delta(once, epsilon, added=True)
        assert exact - 1e-14 <= delta_of(found, epsilon) <= exact + min(1e-3, rate)


def test_finer_grids_are_tighter() -> None:
    gaps = []
    for spacing in (0.1, 0.025):
        found = cells(STEPS[1], spacing, 1e-13, 10**6)
        assert found is not None
        pair = (pessimistic(found, added=False), optimistic(found, added=False))
        means = []
        for losses in pair:
            at = (losses.first + np.arange(len(losses.mass))) * spacing
            means.append(float(losses.mass @ at))
        gaps.append(means[0] - means[1])
    assert gaps[1] < gaps[0] / 8


def test_too_many_cells_are_refused() -> None:
    assert cells(STEPS[0], 1e-4, 1e-13, 1000) is None
    assert exchanged(Step(rate=0.1, noise=1.0, change="exchanged"), 1e-5, 1e-13, 1000) is None


def test_losses_beyond_doubles_count_as_published() -> None:
    found = cells(Step(rate=0.5, noise=0.02), 0.5, 1e-13, 10**6)
    assert found is not None
    assert pessimistic(found, added=False).at_infinity == pytest.approx(0.5, rel=1e-6)
    assert optimistic(found, added=False).at_infinity == 0
    assert math.isfinite(float(np.sum(optimistic(found, added=False).mass)))
