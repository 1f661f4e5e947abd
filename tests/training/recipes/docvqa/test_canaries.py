from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import hushdoc_tiny as tiny
import numpy as np
import pytest
import torch

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc_export.docvqa import export
from hushdoc_training import audited_claims
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.models import pointer
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa import canaries, private
from hushdoc_training.recipes.docvqa.settings import SCALED, private_rate
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_private
from hushdoc_training.recipes.kie.settings import PrivateSettings

WORDS = [first + second for first in "bdfgklmn" for second in ("ara", "olo", "umi", "eve")]
CPU = torch.device("cpu")
COUNT = 72


@pytest.fixture(scope="module")
def start() -> Start:
    return start_from("small", max_tokens=64, max_question=24, vocabulary=lambda: WORDS)


def trained(
    start: Start,
    found: canaries.Canaries,
    epsilon: float,
    folder: Path,
    *,
    unit: str = "provider",
    local: LocalTraining | None = None,
) -> Claim:
    plan = PrivacyPlan.calibrated(
        privacy_unit=unit,
        epsilon=epsilon,
        delta=1e-5,
        sampling_rate=1.0,
        steps=2,
        clipping_norm=0.1,
        expected_records=COUNT // 2,
    )
    settings = PrivateSettings(trained="all", learning_rate=1e-4, optimizer="sgd")
    if local is not None:
        settings = PrivateSettings(trained="all")
    begun = replace(start, model=copy.deepcopy(start.model))
    train_private(
        begun, found.planted, plan, settings, out=folder, name="canaries", quiet=True, device=CPU,
        local=local,
    )  # fmt: skip
    return DocVQACheckpoint.load(folder).claim


@pytest.mark.parametrize("unit", ["provider", "document"])
def test_much_is_found_where_there_is_hardly_any_noise_and_no_more_than_claimed(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    found = canaries.drawn(start, COUNT, WORDS)
    claim = trained(start, found, 500.0, tmp_path / "run", unit=unit)
    stored = DocVQACheckpoint.load(tmp_path / "run")
    monkeypatch.setattr(private, "mixed_precision", None)  # small differences are what tells
    run = found.audited(start, pointer.load(stored.folder), claim, device=CPU)
    lower = run.audit.epsilon_lower
    assert run.audit.unit == unit
    assert lower is not None
    assert 0.5 < lower <= run.ceiling, lower
    assert run.details["planted"] == len(found.planted)
    added = canaries.added_to(claim, run)
    assert added.guarantees[0].audit_lower_bound == lower
    audited_claims.require_unrefuted(added)
    # The same weights under a claim that such noise does not hold are not exported.
    false = replace(added, guarantees=(replace(added.guarantees[0], epsilon=0.5, profile=()),))
    tiny.replace_claim(stored.folder, false)
    with pytest.raises(PrivacyError) as refused:
        export(stored.folder, tmp_path / "sealed", tiny.release())
    assert refused.value.code == "AUDIT_CONTRADICTION"
    assert not (tmp_path / "sealed").exists()


def test_a_private_run_with_canaries_claims_their_bound_and_goes_on_with_its_coins(
    tmp_path: Path, start: Start
) -> None:
    own = canaries.drawn(start, 8, WORDS, seed=2).documents
    plan = PrivacyPlan.calibrated(
        privacy_unit="provider", epsilon=8, delta=1e-5, sampling_rate=0.5, steps=2,
        clipping_norm=0.1, expected_records=20,
    )  # fmt: skip
    settings, out = PrivateSettings(trained="biases"), tmp_path / "run"
    begun = replace(start, model=copy.deepcopy(start.model))
    arguments = {"out": out, "name": "receipts", "quiet": True, "device": CPU, "num_canaries": 40}
    train_private(begun, own, plan, settings, **arguments)
    claim = DocVQACheckpoint.load(out).claim
    [audit] = claim.audits
    assert (audit.unit, audit.canaries, audit.runs) == ("provider", 40, 1)
    assert audit.epsilon_lower is not None
    assert claim.guarantees[0].audit_lower_bound == audit.epsilon_lower <= 8
    assert "40 invented canary providers" in claim.caveats[-1]
    coins = json.loads((out / canaries.FILE).read_text())
    assert len(coins) == 40
    assert claim.training[audited_claims.AUDITS][0]["planted"] == coins.count("1")
    fresh = canaries.drawn(start, 40, WORDS)
    again = canaries.resumed(fresh, out)
    assert [int(there) for there in again.included] == [int(coin) for coin in coins]
    canaries.keep(out, fresh)  # a run that goes on keeps its coins
    assert json.loads((out / canaries.FILE).read_text()) == coins
    with pytest.raises(CheckpointError, match="coins of 41 canaries"):
        canaries.resumed(canaries.drawn(start, 41, WORDS), out)
    absent = {**arguments, "out": tmp_path / "absent"}
    with pytest.raises(CheckpointError, match="resume"):  # and no word of coins
        train_private(begun, own, plan, settings, **absent, resume=True)
    assert not (tmp_path / "absent").exists()


LOCAL = LocalTraining(learning_rate=1e-3)


# A pointer by noised gradients is above, by either unit.
@pytest.mark.parametrize(
    ("architecture", "local"), [("vt5", None), ("vt5", LOCAL), ("pointer", LOCAL)]
)
def test_canaries_are_heard_in_either_architecture_by_either_mechanism(
    tmp_path: Path,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    local: LocalTraining | None,
) -> None:
    if architecture == "vt5":
        start = start_from("tiny", max_tokens=64, max_question=24, architecture="vt5",
                           vocabulary=lambda: [*WORDS, "total due"] * 9)  # fmt: skip
    found = canaries.drawn(start, COUNT, WORDS)
    claim = trained(start, found, 500.0, tmp_path / "run", local=local)
    monkeypatch.setattr(private, "mixed_precision", None)  # small differences are what tells
    run = found.audited(
        start, start_from(str(tmp_path / "run"), architecture=architecture).model, claim, device=CPU
    )
    assert run.audit.epsilon_lower is not None
    assert 0.3 < run.audit.epsilon_lower <= run.ceiling


def test_canaries_are_heard_where_the_last_layer_alone_learns_scaled(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "mixed_precision", None)
    own = canaries.drawn(start, 8, WORDS, seed=2).documents
    plan = PrivacyPlan.calibrated(
        privacy_unit="provider", epsilon=500, delta=1e-5, sampling_rate=1.0, steps=SCALED.steps,
        clipping_norm=SCALED.clipping_norm, expected_records=8 + COUNT // 2,
    )  # fmt: skip
    settings = PrivateSettings(
        trained=SCALED.trained, scaling=SCALED.scaling, optimizer="sgd", decay=False,
        learning_rate=private_rate(plan, algorithm=SCALED.algorithm, scaling=SCALED.scaling),
    )  # fmt: skip
    begun, out = replace(start, model=copy.deepcopy(start.model)), tmp_path / "run"
    train_private(
        begun, own, plan, settings, out=out, name="receipts", quiet=True, device=CPU,
        num_canaries=COUNT,
    )  # fmt: skip
    claim = DocVQACheckpoint.load(out).claim
    assert claim.training["scaling"] == "public"
    [audit] = claim.audits
    assert (audit.unit, audit.canaries) == ("provider", COUNT)
    assert audit.epsilon_lower is not None
    assert claim.guarantees[0].audit_lower_bound == audit.epsilon_lower > 0.5  # hardly any noise
    before, after = start.model.state_dict(), pointer.load(out / "checkpoint").state_dict()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved == {"reader.ends.weight", "reader.ends.bias"}


def test_each_canary_is_a_provider_of_one_row_with_a_coin_of_its_own(start: Start) -> None:
    one, two = (canaries.drawn(start, 64, WORDS) for _ in range(2))
    assert one.documents == two.documents
    assert not np.array_equal(one.included, two.included)  # wrong once in 2^64
    assert len({item.provider for item in one.documents}) == 64
    assert len(one.planted) == int(one.included.sum())
    with pytest.raises(ValueError, match="at least one canary"):
        canaries.drawn(start, 0, WORDS)
