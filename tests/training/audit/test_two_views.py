"""A server that wants two sums of one round gets one at most, and learns what is claimed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Gaussian
from hushdoc_training.audit import two_views
from hushdoc_training.federated.plan import FederatedPlan

DELTA, ERROR = 0.01, 1e-4
PLAN = FederatedPlan(
    algorithm="feam-dp",
    clients=10,
    clients_per_round=10,
    rounds=1,
    sampling_rate=1.0,
    silent=2,
    colluding=2,
    mode="threshold",
    clipping_norm=1.0,
    noise_multiplier=1.2,
    expected_records=4,
    privacy_unit="document",
    epsilon=math.inf,
    delta=DELTA,
    numbers=4000,
)
SUMS = {"one view": [True, False], "both views": [False, False]}


@pytest.mark.parametrize("strategy", two_views.STRATEGIES)
def test_two_sums_of_one_round_never_come_out(strategy: str) -> None:
    shown = two_views.STRATEGIES[strategy]
    sent = [np.full(PLAN.numbers, number) for number in range(10)]
    found = two_views.sums(PLAN, sent, shown)
    expected = SUMS.get(strategy, [False, False])
    assert [total is not None for total in found] == expected
    if found[0] is not None:
        assert set(found[0].tolist()) == {45}


@pytest.mark.parametrize("strategy", two_views.STRATEGIES)
def test_what_it_learns_is_no_more_than_is_claimed(strategy: str) -> None:
    found = two_views.attack(PLAN, two_views.STRATEGIES[strategy])
    assert found.epsilon_lower(DELTA, ERROR) < PLAN.epsilon_against("server")


def test_with_both_sums_it_would_learn_more() -> None:
    """What the noise of one share alone is claimed for is far beyond the plan."""
    alone = Gaussian(noise_multiplier=PLAN.noise_multiplier * PLAN.shares.alone)
    assert pld.epsilon(alone, DELTA) > 2 * PLAN.epsilon_against("server")
