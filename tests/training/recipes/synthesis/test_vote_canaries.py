"""The one-run audit of votes: it refutes too little noise, and not what is claimed."""

from __future__ import annotations

from functools import cache

import pytest

from hushdoc_training.invented import released
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import vote_canaries

CANARIES, SURE = 120, 0.999


@cache
def plan(epsilon: float, rounds: int = 1) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=1.0, steps=rounds, clipping_norm=1.0, expected_records=30
    )


def test_canaries_refute_too_little_noise_and_no_true_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(released, "document_of", cache(released.document_of))
    claimed = vote_canaries.audit(plan(0.5), canaries=CANARIES, confidence=SURE)
    assert claimed.epsilon_lower is not None
    assert claimed.epsilon_lower <= 0.5
    # What would be seen if a run that claims 0.5 drew the noise of 40.
    leaking = vote_canaries.audit(plan(40.0), canaries=CANARIES, confidence=SURE)
    assert leaking.epsilon_lower is not None
    assert 1.0 < leaking.epsilon_lower <= 40.0
    assert (leaking.canaries, leaking.runs, leaking.unit) == (CANARIES, 1, "document")


def test_canaries_of_selection_refute_too_little_noise_and_no_true_claim() -> None:
    claimed = vote_canaries.audit_of_images(plan(0.5), canaries=CANARIES, confidence=SURE)
    assert claimed.epsilon_lower is not None
    assert claimed.epsilon_lower <= 0.5
    leaking = vote_canaries.audit_of_images(plan(40.0), canaries=CANARIES, confidence=SURE)
    assert leaking.epsilon_lower is not None
    assert 1.0 < leaking.epsilon_lower <= 40.0
    assert (leaking.canaries, leaking.adversary) == (CANARIES, "synthetic-data-recipient")


def test_canaries_are_of_one_round() -> None:
    for audit in (vote_canaries.audit, vote_canaries.audit_of_images):
        with pytest.raises(ValueError, match="2 rounds"):
            audit(plan(1.0, 2))


def test_more_canaries_than_a_set_has_pages_are_refused() -> None:
    with pytest.raises(ValueError, match="5001 canaries; expected at most 5000"):
        vote_canaries.audit_of_images(plan(1.0), canaries=5001)
