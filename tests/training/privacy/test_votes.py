"""PrivateVotes: sigma as published, one charge before each round, receipts of what ran."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.votes import EMPTY_VOTES, PrivateVotes, summed
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness.secret_stream import SecretStream

POINTS = [np.array([1.0, 0.0]), np.array([0.0, 3.0]), np.array([np.nan, 1.0])]


@cache
def plan(epsilon: float = 8.0, rounds: int = 1) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=epsilon,
        sampling_rate=1.0,
        steps=rounds,
        clipping_norm=1.0,
        expected_records=10,
    )


def votes(noted: list[int], rounds: int = 1, **further: Any) -> PrivateVotes[np.ndarray]:
    records = Records([[point] for point in POINTS], unit="document")
    return PrivateVotes(plan(rounds=rounds), records, charge=noted.append, **further)


@pytest.mark.parametrize(
    ("epsilon", "rounds", "sigma"),
    [(8, 1, 0.60), (8, 2, 0.85), (8, 4, 1.20), (1, 1, 3.73), (1, 2, 5.28), (1, 4, 7.46)],
)
def test_rounds_of_votes_cost_what_one_gaussian_costs(
    epsilon: float, rounds: int, sigma: float
) -> None:
    found = plan(epsilon, rounds).noise_multiplier
    assert found == pytest.approx(sigma, abs=0.005)
    assert found / np.sqrt(rounds) == pytest.approx(plan(epsilon).noise_multiplier, rel=1e-4)


def test_each_round_is_charged_before_a_vote_is_cast() -> None:
    order: list[object] = []
    records = Records([[point] for point in POINTS[:2]], unit="document")
    rounds: PrivateVotes[np.ndarray] = PrivateVotes(
        plan(rounds=2), records, charge=lambda number: order.append(number)
    )

    def cast(point: np.ndarray) -> np.ndarray:
        order.append("vote")
        return point

    rounds.sums(cast, 2)
    rounds.sums(cast, 2)
    assert order == [1, "vote", "vote", 2, "vote", "vote"]
    with pytest.raises(PrivacyError, match="All 2 rounds"):
        rounds.sums(cast, 2)
    assert order[-1] == "vote"
    receipt = rounds.receipt
    assert (receipt.steps, receipt.planned_steps, receipt.privacy_unit) == (2, 2, "document")
    assert receipt.is_secret
    assert receipt.noise_multiplier == pytest.approx(plan(rounds=2).noise_multiplier)


def test_long_votes_are_shortened_and_such_as_are_not_finite_are_zero() -> None:
    total, strange = summed(POINTS, lambda point: point, 2, norm=1.0, step=2.0**-20)
    assert (total * 2.0**-20).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    assert strange == 1
    rounds = votes([])
    rounds.sums(lambda point: point, 2)
    assert rounds.not_finite == 1
    assert rounds.view.unaccounted == (EMPTY_VOTES,)
    assert rounds.receipt.private_reads == (EMPTY_VOTES,)  # so that a claim of it alone says so


def test_the_noise_has_the_plans_deviation_in_every_cell() -> None:
    rounds = votes([])
    noise = rounds.sums(lambda point: np.zeros(20_000), 20_000)
    expected = plan().noise_multiplier / 10
    assert rounds.deviation == pytest.approx(expected, rel=1e-5)
    assert float(noise.std()) == pytest.approx(expected, rel=0.03)


def test_votes_of_another_shape_or_unit_are_refused() -> None:
    with pytest.raises(ValueError, match="expected \\(3,\\)"):
        votes([]).sums(lambda point: point, 3)
    pages = Records([[point] for point in POINTS], unit="page")
    with pytest.raises(PrivacyError, match="One of the records is a page"):
        PrivateVotes(plan(), pages, charge=lambda number: None)


def test_nothing_is_certified_of_noise_that_somebody_knows() -> None:
    rounds = votes([], stream=SecretStream(key=bytes(32)), view=PrivateView())
    rounds.sums(lambda point: point, 2)
    assert not rounds.receipt.is_secret


def test_a_resumed_run_goes_on_after_what_was_charged() -> None:
    charged: list[int] = []
    first = votes(charged, rounds=3)
    first.sums(lambda point: point, 2)
    later = votes(charged, rounds=3, charged=2, receipt=first.receipt)
    later.sums(lambda point: point, 2)
    assert charged == [1, 3]
    assert (later.receipt.steps, later.receipt.invocations) == (2, 2)
