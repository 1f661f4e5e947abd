"""Two trainings of the same weights: a claim of the second alone would leave out the first."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from kie_training import OUTPUT, train_private
from private_simulator import example_records, small_model, squares
from torch import nn

from hushdoc.errors import OutputWriteError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.kie import start
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.runs import receipts
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.run_folder import STEPS
from hushdoc_training.runs.selection import Candidate, Selection, best_of
from hushdoc_training.runs.step_log import last_charge, read_log

PLAN = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.5, steps=3, expected_records=4)


def trained(model: nn.Module) -> PrivateTraining[torch.Tensor]:
    held = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.SGD(held, lr=0.1)
    records = Records(example_records(), unit="document")
    with PrivateTraining(
        PLAN, model, optimizer, records=records, losses=squares(model)
    ) as training:
        list(training)
    return training


def refused(training: PrivateTraining[torch.Tensor]) -> bool:
    try:
        receipts.claim_of(training, "pages")
    except PrivacyError as error:
        return error.code == "TRAINED_BEFORE"
    return False


@pytest.mark.parametrize("copied", [False, True])
def test_what_another_training_has_left_has_no_claim_of_its_own(copied: bool) -> None:
    model = small_model()
    model[0].requires_grad_(False)  # the output layer first
    assert not refused(trained(model))
    model = copy.deepcopy(model) if copied else model
    model[0].requires_grad_(True)
    model[2].requires_grad_(False)  # frozen now, and released all the same
    assert refused(trained(model))


def test_weights_that_begin_anew_have_one() -> None:
    model = small_model()
    begun = copy.deepcopy(model.state_dict())
    assert not refused(trained(model))
    model.load_state_dict(begun)
    assert not refused(trained(model))


def test_a_ledger_of_both_counts_both(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    model = small_model()
    for number in (1, 2):
        training = trained(model)
        step, steps = PLAN.step, PLAN.steps
        ledger.reserve(str(number), title="", step=step, steps=steps, claim="c", documents="d")
        if number == 1:
            alone = ledger.statement("d")
    with pytest.raises(PrivacyError, match="began with what"):
        receipts.claim_of(training, "pages", ledger=alone)
    claim = receipts.claim_of(training, "pages", ledger=ledger.statement("d"))
    assert (claim.guarantees[0].epsilon or 0) > 1.2 * PLAN.epsilon


def test_the_best_of_several_begin_each_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    model = small_model()

    def run(rate: float) -> Candidate[float]:
        return Candidate(outcome=rate, score=rate, training=trained(model))

    with pytest.raises(PrivacyError) as found:
        best_of(Selection(expected_runs=2), [0.1], run)
    assert found.value.code == "TRAINED_BEFORE"


@pytest.mark.parametrize("settings", [OUTPUT, PrivateSettings(trained="lora:1")])
def test_a_start_that_a_recipe_has_moved_starts_no_other_run(
    small_start: start.Start,
    receipts: list[LabelledDocument],
    settings: PrivateSettings,
    tmp_path: Path,
) -> None:
    train_private(small_start, receipts[:6], tmp_path / "first", settings=settings)
    with pytest.raises(PrivacyError) as found:
        train_private(small_start, receipts[:6], tmp_path / "second", settings=settings)
    assert found.value.code == "TRAINED_BEFORE"
    assert last_charge(read_log(tmp_path / "second" / STEPS)) == 0
    assert Checkpoint.load(tmp_path / "first").claim.guarantees[0].kind == "dp"


def test_what_no_step_has_moved_is_left_by_none_under_another_name() -> None:
    """As of a layer that an adapter stood beside, which has learned nothing yet."""
    public = nn.Linear(3, 2)
    moved = earlier_steps.Moved({"inner.layer.weight": public.weight})
    moved.end({"inner.weight": public.weight})
    assert earlier_steps.begun_with(public) == ()


def test_a_run_that_failed_has_moved_its_start_too(
    small_start: start.Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = PrivateSettings(trained="output", scaling="public")  # by an adapter alone
    taken = PrivateRun.train

    def fails(run: PrivateRun, *given: Any, **named: Any) -> bool:
        taken(run, *given, **named)
        raise OutputWriteError("The disk is full.")

    monkeypatch.setattr(PrivateRun, "train", fails)
    with pytest.raises(OutputWriteError):
        train_private(small_start, receipts[:6], tmp_path / "first", settings=settings)
    monkeypatch.undo()
    with pytest.raises(PrivacyError) as found:
        train_private(small_start, receipts[:6], tmp_path / "second", settings=settings)
    assert found.value.code == "TRAINED_BEFORE"
