"""One-run auditing: its bound is that of exact arithmetic, and holds as often as it says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hushdoc_training.audit import one_run
from hushdoc_training.audit.one_run import Guesses

RATIOS = {math.log(ratio): Fraction(ratio) for ratio in (1, 2, 3, 10)}


def exact_p_value(m: int, r: int, v: int, ratio: Fraction, delta: Fraction) -> Fraction:
    """Theorem 5.2 of Steinke, Nasr, Jagielski 2023 in exact arithmetic, term by term."""
    q = ratio / (1 + ratio)

    def between(low: int, high: int) -> Fraction:
        return sum(
            (math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(max(0, low), high)),
            Fraction(0),
        )

    help_of_delta = max(between(v - i, v) / i for i in range(1, m + 1))
    return min(Fraction(1), between(v, r + 1) + 2 * m * delta * help_of_delta)


@pytest.mark.parametrize("epsilon", RATIOS)
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 1000), Fraction(1, 10)])
@pytest.mark.parametrize(("m", "r", "v"), [(1, 1, 1), (9, 5, 4), (40, 40, 31), (60, 30, 30)])
def test_p_value_is_that_of_exact_arithmetic(
    m: int, r: int, v: int, epsilon: float, delta: Fraction
) -> None:
    found = Guesses(canaries=m, guesses=r, right=v).p_value(epsilon, float(delta))
    assert found == pytest.approx(float(exact_p_value(m, r, v, RATIOS[epsilon], delta)), rel=1e-8)


def test_bound_is_where_the_exact_p_value_crosses() -> None:
    guesses = Guesses(canaries=50, guesses=40, right=36)
    low = guesses.epsilon_lower(1e-3, 0.95)
    for shift, refuted in ((-1e-3, True), (1e-3, False)):
        ratio = Fraction(math.exp(low + shift))
        assert (exact_p_value(50, 40, 36, ratio, Fraction(1, 1000)) <= 0.05) is refuted


@pytest.mark.parametrize("r", [1, 10, 250, 5000])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_all_right_without_delta_is_the_closed_form(r: int, confidence: float) -> None:
    q = (1 - confidence) ** (1 / r)
    expected = max(0.0, math.log(q / (1 - q)))
    best = Guesses(canaries=r, guesses=r, right=r)
    assert best.epsilon_lower(0.0, confidence) == pytest.approx(expected, abs=1e-5)
    if r >= 250:
        assert expected == pytest.approx(math.log(r / math.log(1 / (1 - confidence))), abs=0.02)


def test_more_right_guesses_show_more_and_more_confidence_or_delta_less() -> None:
    right = [
        Guesses(canaries=1000, guesses=250, right=v).epsilon_lower(1e-5, 0.99)
        for v in range(120, 251, 10)
    ]
    assert right == sorted(right)
    assert right[0] == 0 < right[-1]
    guesses = Guesses(canaries=1000, guesses=250, right=230)
    for several in (
        [guesses.epsilon_lower(1e-5, confidence) for confidence in (0.999, 0.99, 0.95, 0.5)],
        [guesses.epsilon_lower(delta, 0.99) for delta in (1e-2, 1e-4, 1e-5, 0.0)],
        [guesses.p_value(epsilon, 1e-5) for epsilon in (0.0, 0.5, 1.0, 2.0, 8.0)],
    ):
        assert several == sorted(several)


def test_no_bound_is_above_its_ceiling() -> None:
    for v in (0, 125, 200, 250):
        guesses = Guesses(canaries=1000, guesses=250, right=v)
        assert guesses.epsilon_lower(1e-5, 0.99) <= guesses.ceiling(1e-5, 0.99) < 4
    # The ceiling of 1,000 canaries lies well above the claim that they are held against.
    assert guesses.ceiling(1e-5, 0.99) > 3


def test_nothing_guessed_shows_nothing() -> None:
    none = Guesses(canaries=1000, guesses=0, right=0)
    assert none.p_value(0.0, 0.0) == 1.0
    assert none.epsilon_lower(0.0, 0.95) == none.ceiling(0.0, 0.95) == 0.0
    assert Guesses(canaries=10, guesses=10, right=10).epsilon_lower(1.0, 0.95) == 0.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (1.0, 0.02)])
def test_the_bound_holds_as_often_as_it_says(epsilon: float, delta: float) -> None:
    """Randomised response that shows the coin itself with probability delta."""
    draws = np.random.default_rng(0)
    keep, above = 1 / (1 + math.exp(-epsilon)), 0
    lowers = []
    for _ in range(300):
        included = draws.random(400) < 0.5
        heard = np.where(draws.random(400) < keep, included, ~included) * 1.0
        shown = draws.random(400) < delta
        heard[shown] = np.where(included[shown], 2.0, -1.0)
        found = one_run.guessed(heard + 0.5 * draws.random(400), included)
        lowers.append(found.epsilon_lower(delta, 0.9))
        above += lowers[-1] > epsilon
    assert above <= 300 * 0.1
    if not delta:
        assert np.mean(lowers) > 0.6 * epsilon


def test_the_surest_are_guessed_and_the_others_not() -> None:
    scores = np.array([0.1, 5.0, -5.0, 0.0, 0.2, 4.0, -4.0, 0.3])
    included = scores > 3
    assert one_run.guessed(scores, included, share=0.5) == Guesses(canaries=8, guesses=4, right=4)
    assert one_run.guessed(scores, ~included, share=0.5).right == 0
    assert one_run.guessed(scores, included, share=1.0).guesses == 8


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Guesses(canaries=5, guesses=6, right=1),
        lambda: Guesses(canaries=5, guesses=4, right=5),
        lambda: Guesses(canaries=5, guesses=4, right=-1),
        lambda: Guesses(canaries=5, guesses=4, right=4).p_value(-1.0, 0.0),
        lambda: Guesses(canaries=5, guesses=4, right=4).p_value(1.0, 1.5),
        lambda: Guesses(canaries=5, guesses=4, right=4).epsilon_lower(0.0, 1.0),
        lambda: one_run.guessed(np.array([1.0, math.nan]), np.array([True, False])),
        lambda: one_run.guessed(np.array([1.0]), np.array([True, False])),
        lambda: one_run.guessed(np.zeros(2), np.array([True, False]), share=0.0),
    ],
)
def test_numbers_that_contradict_one_another_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match="expected"):
        wrong()
