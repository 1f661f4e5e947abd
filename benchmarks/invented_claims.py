"""Claims of trainings that never ran, for benchmarks of what reads claims."""

from __future__ import annotations

from hushdoc.certificate.claim import Claim
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.receipt import Origin
from hushdoc_training.runs import receipts
from hushdoc_training.runs.receipts import Declared


def claim(*, epsilon: float, delta: float) -> Claim:
    """Returns the claim of 350 steps at a rate of 1/7, of differential privacy for documents."""
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon,
        delta=delta,
        privacy_unit="document",
        sampling_rate=1 / 7,
        steps=350,
        clipping_norm=1.0,
        expected_records=20,
    )
    meter = Meter(planned_steps=plan.steps, privacy_unit=plan.privacy_unit)
    nobody = Origin(source="operating-system", secret=True)
    for _ in range(plan.steps):
        meter.drawn(plan.sampling_rate, nobody)
        meter.clipped(plan.clipping_norm)
        meter.noised(
            std=plan.noise_multiplier, sensitivity=1.0, origin=nobody, distribution="gaussian"
        )
        meter.divided(plan.expected_records)
    return receipts.claim(meter.receipt(), Declared(name="invented"), delta=delta)
