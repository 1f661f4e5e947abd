"""Plans: calibrated by either accountant, and never promising what they do not keep."""

from __future__ import annotations

import pytest

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import PRIVACY_UNITS, Composed, Gaussian, PoissonSampled
from hushdoc.claim import Claim
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import UNIT_DEFINITIONS, PrivacyPlan


def plan(accountant: str, **changed: object) -> PrivacyPlan:
    settings = {"epsilon": 8.0, "sampling_rate": 0.2, "steps": 50}
    return PrivacyPlan.calibrated(accountant=accountant, **{**settings, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(("accountant", "engine"), [("pld", pld), ("rdp", rdp)])
def test_a_plan_counts_with_its_own_accountant(accountant: str, engine: object) -> None:
    made = plan(accountant)
    step = PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=made.noise_multiplier))
    assert made.step == step
    assert made.mechanism(7) == Composed(event=step, count=7)
    assert made.epsilon_after(50) == engine.epsilon(made.mechanism(), 1e-5)  # type: ignore[attr-defined]
    assert 7.99 < made.epsilon_after(50) <= 8
    assert made.epsilon_after(10) < made.epsilon_after(20)


def test_exact_accounting_needs_less_noise() -> None:
    assert PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.2, steps=50).accountant == "pld"
    exact, renyi = plan("pld").noise_multiplier, plan("rdp").noise_multiplier
    assert 0.88 * renyi < exact < 0.98 * renyi


def test_an_unknown_accountant_is_refused() -> None:
    with pytest.raises(ValueError, match="accountant is 'clt'"):
        PrivacyPlan(
            privacy_unit="document",
            epsilon=8,
            delta=1e-5,
            sampling_rate=0.2,
            steps=50,
            clipping_norm=0.1,
            noise_multiplier=2.0,
            expected_records=8,
            accountant="clt",
        )


def test_plan_refuses_to_promise_what_it_does_not_keep() -> None:
    good = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.2, steps=50)
    assert good.epsilon_after(50) <= 8
    assert good.epsilon_after(50) > 7.9
    assert good.epsilon_after(10) < good.epsilon_after(20)
    with pytest.raises(ValueError, match="more than its target"):
        PrivacyPlan(
            privacy_unit="document",
            epsilon=8,
            delta=1e-5,
            sampling_rate=0.2,
            steps=50,
            clipping_norm=0.1,
            noise_multiplier=good.noise_multiplier * 0.9,
            expected_records=8,
        )
    for wrong in ({"privacy_unit": "word"}, {"clipping_norm": 0.0}, {"expected_records": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.2, steps=50, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", UNIT_DEFINITIONS)
def test_every_unit_can_be_certified(unit: str) -> None:
    assert unit in PRIVACY_UNITS
    claim = claims.private(plan("rdp", privacy_unit=unit), "papers", (), training={})
    assert Claim.from_json(claim.to_json()).guarantees[0].unit_definition == UNIT_DEFINITIONS[unit]
