"""The distinguisher refutes what papers count, and never what plans claim."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
from hushdoc_training.audit import mixture_distinguisher
from hushdoc_training.federated.plan import FederatedPlan

DELTA, ERROR = 0.01, 1e-3
FEW: dict[str, Any] = {
    "algorithm": "feam-dp",
    "clients": 20,
    "clients_per_round": 1,
    "rounds": 50,
    "participation": "drawn",
    "sampling_rate": 0.05,
    "clipping_norm": 1.0,
    "noise_multiplier": 0.8,
    "expected_records": 4,
    "privacy_unit": "document",
    "epsilon": math.inf,
    "delta": DELTA,
    "numbers": 1000,
}


def found(plan: FederatedPlan) -> float:
    return mixture_distinguisher.attack(plan, fpr=0.01).epsilon_lower(DELTA, ERROR)


def test_drawing_clients_is_not_drawing_units() -> None:
    """One client of twenty in each of fifty rounds, all of whose units take part."""
    plan = FederatedPlan(**FEW)
    counted = PoissonSampled(sampling_rate=0.05, event=Gaussian(noise_multiplier=0.8))
    as_published = pld.epsilon(Composed(event=counted, count=50), DELTA)
    lower, claimed = found(plan), plan.epsilon_against("model-recipient")
    assert as_published < lower < claimed
    assert 2 * as_published < claimed


@pytest.mark.parametrize(
    "change",
    [
        {"participation": "rota", "rounds": 20, "noise_multiplier": 0.5},
        {"participation": "rota", "rounds": 40, "sampling_rate": 0.03, "noise_multiplier": 0.4},
        {"participation": "all", "clients": 5, "clients_per_round": 5, "sampling_rate": 0.3},
        {
            "participation": "all",
            "clients": 5,
            "clients_per_round": 5,
            "rounds": 1,
            "sampling_rate": 1.0,
            "colluding": 3,
        },
    ],
    ids=["rota", "rota with coins", "all with coins", "shares with colluding clients"],
)
def test_no_way_to_take_part_shows_more_than_is_claimed(change: dict[str, Any]) -> None:
    plan = FederatedPlan(**{**FEW, **change})
    claimed = plan.epsilon_against("model-recipient")
    lower = found(plan)
    assert lower <= claimed
    assert lower > 0.1 * min(claimed, 4)  # the attack is not blind
