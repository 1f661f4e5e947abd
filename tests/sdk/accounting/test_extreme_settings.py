"""At the ends of what a transcript may say no engine fails, and none reports less than is true.

The truth is the hockey-stick curve of one step in closed form, with 120 digits.
"""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from mpmath import mp, mpf

from hushdoc.accounting import curve, dominating, pld, rdp
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    Mechanism,
    PoissonSampled,
    Sequence,
)
from hushdoc.accounting.normal_form import normal_form

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

mp.dps = 120


def true_delta(cluster: float, rate: float, noise: float, epsilon: float) -> mpf:
    """Delta of a step that runs with the public probability `cluster`, in the worse direction."""
    q, s, limit = mpf(rate), mpf(noise), mp.exp(mpf(epsilon))

    def below(x: mpf, mean: int) -> mpf:
        return mp.erfc((mean - x) / (s * mp.sqrt(2))) / 2

    def at(ratio: mpf) -> mpf:
        """Where the density with the record is `ratio` times that without it."""
        return s * s * mp.log((ratio - 1 + q) / q) + mpf(1) / 2

    x = at(limit)
    removed = q * below(1 - x, 0) + (1 - q) * below(-x, 0) - limit * below(-x, 0)
    added = mpf(0)
    if 1 / limit - 1 + q > 0:
        x = at(1 / limit)
        added = below(x, 0) - limit * ((1 - q) * below(x, 0) + q * below(x, 1))
    return mpf(cluster) * max(removed, added)


def step(cluster: float, rate: float, noise: float) -> Mechanism:
    inner = PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise))
    return ClusterSampled(sampling_rate=cluster, event=inner)


def require_truth(cluster: float, rate: float, noise: float, delta: float) -> None:
    """An epsilon is never below the true one, nor a lower bound above it."""
    event = step(cluster, rate, noise)
    found = pld.bounds(event, delta)
    assert found.upper > 100 or true_delta(cluster, rate, noise, found.upper) <= delta
    if found.lower > 0:
        assert true_delta(cluster, rate, noise, found.lower * (1 - 1e-9)) >= delta * (1 - 1e-9)
    for epsilon in (0.0, 0.3, 4.0):
        exact = true_delta(cluster, rate, noise, epsilon)
        assert pld.delta(event, epsilon) >= exact * (1 - mpf(10) ** -9)


# A curve without mass above the answer: the share of the way to the next loss was 0 / 0.
NO_MASS_ABOVE = [
    (0.5, 8.59830206383012e-11, 2960347.4733584537, 3.7837957308897535e-26),
    (0.27737531097620216, 0.1, 22281446.27269865, 6.900678114456762e-33),
    (1.0, 0.06479232061779772, 7524188.172201073, 1.5515375032973596e-34),
    (1.0, 7.870483479598152e-18, 106987269.1434984, 1.0421496197926167e-37),
]


@pytest.mark.parametrize(("cluster", "rate", "noise", "delta"), NO_MASS_ABOVE)
def test_a_zero_ratio_in_the_loss_curve_is_no_share(
    cluster: float, rate: float, noise: float, delta: float
) -> None:
    require_truth(cluster, rate, noise, delta)


def test_losses_beyond_the_range_of_doubles_leave_the_trivial_bound() -> None:
    assert (
        pld.delta(PoissonSampled(sampling_rate=1.0, event=Gaussian(noise_multiplier=0.0103)), 0.0)
        == 1
    )


def test_a_cluster_that_hardly_ever_takes_part_beside_a_loud_one() -> None:
    rare = ClusterSampled(
        sampling_rate=5e-324, event=Composed(event=Gaussian(noise_multiplier=48.6), count=9)
    )
    loud = ClusterSampled(sampling_rate=0.94, event=Gaussian(noise_multiplier=1e300))
    ran = Sequence(events=(Composed(event=rare, count=963), loud))
    assert 0 <= pld.delta(ran, 0.01893398877649942) <= 1e-6


def refuted(size: int, rate: float, noise: float, epsilon: float, delta: float) -> bool:
    """Whether a threshold of the sum tells a unit's presence, or absence, better than claimed."""
    limit, scale = mp.exp(mpf(epsilon)), mpf(noise) * mp.sqrt(2)
    weights = [
        mp.binomial(size, b) * mpf(rate) ** b * (1 - mpf(rate)) ** (size - b)
        for b in range(size + 1)
    ]
    for step in sorted(range(-12, 13), key=abs):
        x = mpf(size) / 2 + step * (mpf(size) / 16 + mpf(noise))
        present = sum(w * mp.erfc((x - b) / scale) / 2 for b, w in enumerate(weights))
        absent = mp.erfc(x / scale) / 2
        if present - limit * absent > delta or (1 - absent) - limit * (1 - present) > delta:
            return True
    return False


@pytest.mark.parametrize("size", [8, 64, 200])
@pytest.mark.parametrize(
    "rate",
    [0.3, 0.99, 1 - 1e-7, pytest.param(0.9, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_a_unit_whose_records_are_almost_all_drawn_is_not_free(
    size: int, rate: float, noise: float
) -> None:
    """(1 - rate)^size left the range of doubles, and what is not a number passed for epsilon 0."""
    sampled = PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise))
    group = Grouped(size=size, event=sampled)
    assert refuted(size, rate, noise, 1.0, 1e-5)
    renyi, exact = rdp.epsilon(group, 1e-5), pld.epsilon(group, 1e-5)
    assert 1 < exact <= renyi <= rdp.epsilon(Gaussian(noise_multiplier=noise / size), 1e-5)
    assert exact > 100 or not refuted(size, rate, noise, exact, 1e-5)
    assert not pld.holds(group, 1.0, 1e-5)


def test_what_is_not_a_number_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comparison with it is false, so that it would pass for less than anything."""
    step = PoissonSampled(sampling_rate=0.12345, event=Gaussian(noise_multiplier=1.2345))
    nothing = (math.nan,) * len(rdp.ORDERS)
    monkeypatch.setattr(rdp, "sampled_gaussian", lambda *given: nothing)
    assert rdp.epsilon(step, 1e-5) == math.inf
    form = normal_form(step)
    cells = dominating.cells(form, 0.01, 1e-12, 10**6)
    losses = dominating.pessimistic(cells, added=False)
    broken = dataclasses.replace(losses, mass=losses.mass * math.nan)
    ring = curve.ring(form, {form: losses}, 0.01, 1.0)
    found = curve.curve(form, {form: broken}, 0.01, ring)
    assert found.epsilon(1e-5) == math.inf
    assert found.delta(1.0) == 1


def extreme(generator: random.Random) -> tuple[float, float, float, float]:
    """Probability of the cluster, sampling rate, noise and delta, each often near an end."""

    def spread(least: float, most: float) -> float:
        return 10 ** generator.uniform(least, most)

    cluster = generator.choice([1.0, 0.5, spread(-20, 0), 1 - spread(-16, -1)])
    rate = generator.choice([1.0, spread(-25, 0), 1 - spread(-16, -1), 0.1])
    noise = generator.choice([spread(-1.2, 7.5), spread(-0.5, 1), spread(5, 8)])
    delta = generator.choice([spread(-12, -1), spread(-100, 0), spread(-300, -90), 1e-100])
    return cluster, rate, noise, delta


def require_many(seed: int, count: int) -> None:
    generator = random.Random(seed)
    for _ in range(count):
        require_truth(*extreme(generator))


def test_no_extreme_setting_is_underreported() -> None:
    require_many(1, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_none_of_many_extreme_settings_is_underreported(seed: int) -> None:
    require_many(seed, 200)
