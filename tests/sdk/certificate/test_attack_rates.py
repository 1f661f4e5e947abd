"""Epsilons that follow from rates: known answers, the best attack, and other people's intervals."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Gaussian
from hushdoc.certificate import attack_rates

shares = st.floats(0, 1)


def least(pairs: list[tuple[float, float]], delta: float, trials: int | None = None) -> float:
    return attack_rates.least_epsilon(attack_rates.comparisons(pairs, trials), delta)


@pytest.mark.parametrize(
    ("hits", "alarms", "delta", "expected"),
    [
        (0.9, 0.01, 0.0, math.log(90)),
        (0.9, 0.01, 1e-2, math.log(89)),
        # Whoever is not accused, and attacks that accuse the wrong ones.
        (0.99, 0.1, 0.0, math.log(90)),
        (0.01, 0.9, 0.0, math.log(90)),
        (0.1, 0.99, 0.0, math.log(90)),
        (0.5, 0.5, 0.0, 0.0),
        (0.3, 0.2, 0.2, 0.0),
        (1.0, 0.0, 0.5, math.inf),
        (1.0, 0.0, 1.0, 0.0),
        (0.1, 0.0, 0.2, 0.0),
    ],
)
def test_known_answers(hits: float, alarms: float, delta: float, expected: float) -> None:
    assert least([(hits, alarms)], delta) == pytest.approx(expected, abs=1e-12)


def test_the_most_telling_pair_counts() -> None:
    assert least([(0.5, 0.5), (0.9, 0.01), (0.6, 0.2)], 0.0) == pytest.approx(math.log(90))
    assert least([], 0.0) == 0.0


def test_the_best_attack_on_a_gaussian_shows_its_epsilon_and_no_attack_more() -> None:
    noise, delta = 0.8, 1e-3
    epsilon = pld.epsilon(Gaussian(noise_multiplier=noise), delta)
    normal = NormalDist()
    pairs = [
        (1 - normal.cdf(at - 1 / noise), 1 - normal.cdf(at)) for at in np.linspace(-6, 8, 2000)
    ]
    found = least(pairs, delta)
    assert found <= epsilon
    assert found == pytest.approx(epsilon, rel=1e-3)


@given(shares, st.integers(0, 10**6), st.integers(1, 16))
def test_bounds_hold_the_rate_and_narrow_with_trials(share: float, trials: int, pairs: int) -> None:
    low, high = attack_rates.bounds(share, trials, pairs)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    narrower = attack_rates.bounds(share, 4 * trials, pairs)
    assert low - 1e-12 <= narrower[0]
    assert narrower[1] <= high + 1e-12


@pytest.mark.parametrize("num", [1, 7, 100, 5000])
def test_no_bound_is_narrower_than_that_of_clopper_and_pearson(num: int) -> None:
    beta = pytest.importorskip("scipy.stats").beta
    error = (1 - attack_rates.CONFIDENCE) / 4
    for hits in {0, 1, num // 10, num // 2, num - 1, num}:
        low, high = attack_rates.bounds(hits / num, 2 * num, 1)
        exact_low = 0.0 if hits == 0 else float(beta.ppf(error, hits, num - hits + 1))
        exact_high = 1.0 if hits == num else float(beta.ppf(1 - error, hits + 1, num - hits))
        assert low <= exact_low + 1e-9
        assert high >= exact_high - 1e-9


@pytest.mark.parametrize("share", [0.0, 0.001, 0.03, 0.5, 0.9, 1.0])
def test_the_true_rate_lies_within_its_bounds_nearly_always(share: float) -> None:
    rng = np.random.default_rng(3)
    found = rng.binomial(200, share, size=4000) / 200
    missed = 0
    for rate, count in zip(*np.unique(found, return_counts=True), strict=True):
        low, high = attack_rates.bounds(float(rate), 400, 1)
        missed += 0 if low <= share <= high else int(count)
    assert missed / 4000 <= (1 - attack_rates.CONFIDENCE) / 2
