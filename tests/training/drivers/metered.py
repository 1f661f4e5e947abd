"""Receipts for tests, written as training writes them: by a meter that notes every step."""

from __future__ import annotations

from typing import Any

from hushdoc.certificate.claim import Claim
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.receipt import Origin, Receipt
from hushdoc_training.runs import receipts
from hushdoc_training.runs.receipts import Declared

SYSTEM = Origin(source="operating-system", secret=True)
GIVEN = Origin(source="given", secret=False)


def meter_of(plan: PrivacyPlan, *, taken: int | None = None, **changed: Any) -> Meter:
    """Returns a meter that noted the steps of a plan, or others where something is changed."""
    told: dict[str, Any] = {
        "steps": plan.steps,
        "unit": plan.privacy_unit,
        "rate": plan.sampling_rate,
        "norm": plan.clipping_norm,
        "multiplier": plan.noise_multiplier,
        "divisor": plan.expected_records,
        "coins": SYSTEM,
        "noise": SYSTEM,
        **changed,
    }
    meter = Meter(planned_steps=told["steps"], privacy_unit=told["unit"])
    for _ in range(told["steps"] if taken is None else taken):
        meter.drawn(told["rate"], told["coins"])
        meter.clipped(told["norm"])
        meter.noised(
            std=told["multiplier"] * told["norm"],
            sensitivity=told["norm"],
            origin=told["noise"],
            distribution="gaussian",
        )
        meter.divided(told["divisor"])
    return meter


def receipt_of(plan: PrivacyPlan, **changed: Any) -> Receipt:
    """Returns the receipt of a training that did what a plan says, but for what is changed."""
    return meter_of(plan, **changed).receipt()


def claim_by(
    plan: PrivacyPlan, name: str, *, ledger: LedgerStatement | None = None, **declared: Any
) -> Claim:
    """Returns the claim of a training that did what a plan says."""
    return receipts.claim(
        receipt_of(plan),
        Declared(name=name, **declared),
        delta=plan.delta,
        accountant=plan.accountant,
        ledger=ledger,
    )
