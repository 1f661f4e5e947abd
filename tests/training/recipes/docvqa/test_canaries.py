from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hushdoc.certificate.claim import Claim
from hushdoc.errors import PrivacyError
from hushdoc_training import audited_claims
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.models import pointer
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa import canaries
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_private
from hushdoc_training.recipes.kie.settings import PrivateSettings

WORDS = [first + second for first in "bdfgklmn" for second in ("ara", "olo", "umi", "eve")]
CPU = torch.device("cpu")
COUNT = 120


@pytest.fixture(scope="module")
def start() -> Start:
    return start_from("small", max_tokens=64, max_question=24, vocabulary=lambda: WORDS)


def trained(start: Start, found: canaries.Canaries, epsilon: float, folder: Path) -> Claim:
    plan = PrivacyPlan.calibrated(
        privacy_unit="provider",
        epsilon=epsilon,
        delta=1e-5,
        sampling_rate=1.0,
        steps=2,
        clipping_norm=0.1,
        expected_records=60,
    )
    settings = PrivateSettings(trained="all", learning_rate=1e-4, optimizer="sgd")
    begun = replace(start, model=copy.deepcopy(start.model))
    train_private(
        begun, found.planted, plan, settings, out=folder, name="canaries", quiet=True, device=CPU
    )
    return DocVQACheckpoint.load(folder).claim


def test_much_is_found_where_there_is_hardly_any_noise_and_no_more_than_claimed(
    tmp_path: Path, start: Start
) -> None:
    found = canaries.drawn(start, COUNT, WORDS)
    claim = trained(start, found, 500.0, tmp_path / "run")
    stored = DocVQACheckpoint.load(tmp_path / "run")
    run = found.audited(start, pointer.load(stored.folder), claim, device=CPU)
    lower = run.audit.epsilon_lower
    assert run.audit.unit == "provider"
    assert lower is not None
    assert 1.0 < lower <= run.ceiling
    assert run.details["planted"] == len(found.planted)
    added = audited_claims.with_audits(claim, [run])
    assert added.guarantees[0].audit_lower_bound == lower
    audited_claims.require_unrefuted(added)
    # The same weights under a claim that such noise does not hold are refused.
    false = replace(claim, guarantees=(replace(claim.guarantees[0], epsilon=0.5, profile=()),))
    caught = found.audited(start, pointer.load(stored.folder), false, device=CPU)
    with pytest.raises(PrivacyError) as refused:
        caught.require_unrefuted()
    assert refused.value.code == "AUDIT_CONTRADICTION"


def test_each_canary_is_a_provider_of_one_row_with_a_coin_of_its_own(start: Start) -> None:
    one, two = (canaries.drawn(start, 64, WORDS) for _ in range(2))
    assert one.documents == two.documents
    assert not np.array_equal(one.included, two.included)  # wrong once in 2^64
    assert len({item.provider for item in one.documents}) == 64
    assert len(one.planted) == int(one.included.sum())
    with pytest.raises(ValueError, match="at least one canary"):
        canaries.drawn(start, 0, WORDS)
