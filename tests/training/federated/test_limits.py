"""What an owner lets a roster do, whatever the roster says whom it protects against."""

from __future__ import annotations

import math

import pytest
from hushdoc_federated import settings

from hushdoc.errors import PrivacyError
from hushdoc_training.federated.client import Limits
from hushdoc_training.federated.plan import FederatedPlan

RECIPIENT = FederatedPlan.calibrated(epsilon=8.0, **settings(against=("model-recipient",)))


def test_a_plan_within_the_limits_is_approved() -> None:
    Limits().require(RECIPIENT)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mode": "individual-updates"}, "against server"),
        ({"colluding": 0, "noise_multiplier": RECIPIENT.noise_multiplier}, "against co-client"),
        ({"noise_multiplier": 0.5}, "against model-recipient"),
        ({"delta": 1e-4}, "delta 0.0001"),
        ({"clients": 1, "clients_per_round": 1, "colluding": 0}, "1 clients in a round"),
    ],
)
def test_who_is_not_named_by_the_roster_is_counted_all_the_same(
    change: dict[str, object], says: str
) -> None:
    given = {"noise_multiplier": RECIPIENT.noise_multiplier, "delta": 1e-5, **change}
    plan = FederatedPlan(
        **{**settings(against=("model-recipient",)), **given, "epsilon": math.inf}  # type: ignore[arg-type]
    )
    with pytest.raises(PrivacyError, match=says) as refused:
        Limits().require(plan)
    assert refused.value.code == "BEYOND_LIMITS"


def test_plain_averages_need_an_owner_who_says_so() -> None:
    none = {"algorithm": "fedavg", "noise_multiplier": 0.0, "epsilon": None, "delta": None}
    plan = FederatedPlan(**settings(**none))
    with pytest.raises(PrivacyError, match="no privacy at all"):
        Limits().require(plan)
    Limits(max_epsilon=None).require(plan)
