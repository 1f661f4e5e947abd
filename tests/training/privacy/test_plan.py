"""Plans: calibrated by either accountant, and never promising what they do not keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from metered import claim_by

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.recompute import reproduce
from hushdoc.certificate.vocabulary import PRIVACY_UNITS
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.privacy.spending import ACCOUNTANTS, PROFILE_DELTAS, spending_of
from hushdoc_training.runs import receipts
from hushdoc_training.runs.receipts import Declared


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


GOOD: dict[str, Any] = {
    "privacy_unit": "document",
    "epsilon": 8.0,
    "delta": 1e-5,
    "sampling_rate": 0.1,
    "steps": 10,
    "clipping_norm": 0.1,
    "noise_multiplier": 2.0,
    "expected_records": 32,
}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"accountant": "clt"}, "accountant is 'clt'"),
        ({"privacy_unit": "word"}, "privacy_unit"),
    ],
)
def test_a_plan_that_keeps_no_guarantee_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PrivacyPlan(**{**GOOD, **wrong})


def test_a_little_less_noise_than_calibrated_breaks_the_target() -> None:
    good = plan("pld")
    with pytest.raises(ValueError, match="more than its target"):
        replace(good, noise_multiplier=good.noise_multiplier * 0.9)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("epsilon", value) for value in (NAN, INF, 0.0, -1.0, "8", None)),
        *(("delta", value) for value in (NAN, INF, 0.0, -1e-5, 1.0, 2.0)),
        *(("sampling_rate", value) for value in (NAN, 0.0, -0.1, 1.1, True, "a")),
        *(("steps", value) for value in (0, -3, 2.5, True, NAN, INF)),
        *(("clipping_norm", value) for value in (NAN, INF, 0.0, -0.1)),
        *(("noise_multiplier", value) for value in (NAN, INF, 0.0, -2.0)),
        *(("expected_records", value) for value in (NAN, INF, 0, -1, 2.5, True)),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    assert PrivacyPlan(**GOOD).epsilon_after(10) <= 8
    with pytest.raises(ValueError, match=f"^{name} is {value!r}; expected"):
        PrivacyPlan(**{**GOOD, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sampling_rate", "expected_records", "delta", "told"),
    [
        (0.0001, 10, 1e-5, True),  # made for 100,000 records
        (0.2, 2000, 1e-5, False),  # for 10,000, so exactly at the limit
        (0.2, 2001, 1e-5, True),
        (0.2, 2001, 9e-6, False),
        (0.2, 32, 1e-3, True),
    ],
)
def test_a_delta_that_could_give_records_away_is_told(
    sampling_rate: float, expected_records: int, delta: float, told: bool
) -> None:
    made = plan(
        "rdp",
        sampling_rate=sampling_rate,
        expected_records=expected_records,
        delta=delta,
        steps=5,
    )
    caveats = claim_by(made, "papers").caveats
    assert any("a tenth of one over their number" in caveat for caveat in caveats) is told
    assert told is (delta > 1 / (10 * made.planned_records) * (1 + 1e-9))


@pytest.mark.parametrize("unit", UNIT_DEFINITIONS)
def test_every_unit_can_be_certified(unit: str) -> None:
    assert unit in PRIVACY_UNITS
    claim = claim_by(plan("rdp", privacy_unit=unit), "papers")
    assert Claim.from_json(claim.to_json()).guarantees[0].unit_definition == UNIT_DEFINITIONS[unit]


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_the_accountant_is_asked_once_for_a_run(
    accountant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again by the progress line, by each claim, or by the recomputation of their numbers."""
    asked: list[tuple[object, float]] = []
    engine = ACCOUNTANTS[accountant]

    def counted(mechanism: Mechanism, delta: float, *, adjacency: str) -> float:
        asked.append((mechanism, delta))
        return engine(mechanism, delta, adjacency=adjacency)

    spending_of.cache_clear()
    monkeypatch.setitem(ACCOUNTANTS, accountant, counted)
    made = plan(accountant)
    assert asked == [(made.mechanism(), made.delta)]
    first = claim_by(made, "pages")
    computed = pld._counted_bounds.cache_info().misses
    assert all(found.code is None for found in reproduce(Claim.from_json(first.to_json())))
    receipts.preview(made, Declared(name="pages"))
    again = claim_by(made, "pages", training={"rate": 1})
    assert made.epsilon_after(50) == again.guarantees[0].epsilon
    assert again.guarantees == first.guarantees
    assert len(asked) == len(set(asked)) == len({made.delta, *PROFILE_DELTAS})
    # The recomputation decides for itself, as a checker would, but composes no losses again.
    assert pld._counted_bounds.cache_info().misses == computed
