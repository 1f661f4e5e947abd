"""The one-run audit of diffusion: it refutes too little noise, and not what is claimed."""

from __future__ import annotations

import pytest

from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import page_canaries

CANARIES, SURE = 128, 0.99


def plan(epsilon: float) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=1.0, steps=3, clipping_norm=1e-3, expected_records=64
    )


@pytest.mark.slow
def test_canaries_refute_too_little_noise_and_no_true_claim() -> None:
    claimed = page_canaries.audit(plan(0.5), canaries=CANARIES, confidence=SURE)
    assert claimed.epsilon_lower is not None
    assert claimed.epsilon_lower <= 0.5
    # What would be seen if a run that claims 0.5 drew the noise of 100.
    leaking = page_canaries.audit(plan(100.0), canaries=CANARIES, confidence=SURE)
    assert leaking.epsilon_lower is not None
    assert 1.0 < leaking.epsilon_lower <= 100.0
    assert (leaking.canaries, leaking.unit) == (CANARIES, "document")
