"""Two trainings of the same weights: a claim of the second alone would leave out the first."""

from __future__ import annotations

import copy
import gc
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from kie_training import OUTPUT, train_plain, train_private
from private_simulator import example_records, small_model, squares
from torch import nn

from hushdoc.errors import OutputWriteError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training import inherited_claims
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.federated import testimony
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy import claims, earlier_steps
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.receipt import Receipt
from hushdoc_training.recipes import federated_parties, starts
from hushdoc_training.recipes.kie import start
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.runs import receipts
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.selection import Candidate, Selection, best_of

PLAN = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.5, steps=3, expected_records=4)


def trained(
    model: nn.Module, charge: Callable[[int], object] | None = None
) -> PrivateTraining[torch.Tensor]:
    held = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.SGD(held, lr=0.1)
    records = Records(example_records(), unit="document")
    losses = squares(model)
    with PrivateTraining(
        PLAN, model, optimizer, records=records, losses=losses, charge=charge
    ) as training:
        list(training)
    return training


def charging(ledger: Ledger, run: str) -> Callable[[int], object]:
    """Reserves a run in a ledger, and returns what charges it."""
    step, steps = PLAN.step, PLAN.steps
    ledger.reserve(run, title="", step=step, steps=steps, claim="c", documents="d")
    return lambda number: ledger.charge(run, number)


def require_taken_by_no_run(run: PrivateRun, model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    records = Records(example_records(), unit="document")
    with (
        PrivateTraining(
            PLAN, model, optimizer, records=records, losses=squares(model), charge=run.charge
        ) as training,
        pytest.raises(PrivacyError) as found,
    ):
        run.train(training)
    assert found.value.code == "TRAINED_BEFORE"
    assert training.charged == 0


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


@pytest.mark.parametrize("how", ["dropped", "copied while it is open"])
def test_a_training_that_nobody_closed_has_left_something_too(how: str) -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    records = Records(example_records(), unit="document")
    open_one: Any = PrivateTraining(PLAN, model, optimizer, records=records, losses=squares(model))
    list(open_one)
    if how == "dropped":
        del open_one
        gc.collect()
        assert refused(trained(model))
        return
    assert refused(trained(copy.deepcopy(model)))
    assert not refused(open_one)


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
        training = trained(model, charging(ledger, str(number)))
        if number == 1:
            alone = ledger.statement()
    with pytest.raises(PrivacyError, match="began with what"):
        receipts.claim_of(training, "pages", ledger=alone)
    claim = receipts.claim_of(training, "pages", ledger=ledger.statement())
    assert (claim.guarantees[0].epsilon or 0) > 1.2 * PLAN.epsilon


def refused_by(ledger: Ledger, training: PrivateTraining[torch.Tensor]) -> bool:
    try:
        receipts.claim_of(training, "pages", ledger=ledger.statement())
    except PrivacyError as error:
        return error.code == "TRAINED_BEFORE"
    return False


@pytest.mark.parametrize("first", ["charged nowhere", "a file", "another ledger", "a copy", "it"])
def test_a_ledger_of_two_other_runs_does_not_count_what_none_or_another_does(
    first: str, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    other = Ledger.create(tmp_path / "other", data="pages", epsilon=9, delta=1e-5)
    charging(ledger, "another model")
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    charge = {
        "charged nowhere": lambda: None,
        "a file": lambda: PrivateRun.open(tmp_path / "run", PLAN).charge,
        "another ledger": lambda: charging(other, "first"),
        "a copy": lambda: charging(Ledger.open(tmp_path / "copy"), "first"),
        "it": lambda: charging(ledger, "first"),
    }[first]()
    model = small_model()
    trained(model, charge)
    training = trained(model, charging(ledger, "second"))
    assert refused_by(ledger, training) is (first != "it")


def test_a_ledger_counts_no_training_that_was_not_charged_to_it(tmp_path: Path) -> None:
    """Though it counts another run of the same settings."""
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    trained(small_model(seed=1), charging(ledger, "first"))
    beside = trained(small_model(seed=2))
    with pytest.raises(PrivacyError) as found:
        receipts.claim_of(beside, "pages", ledger=ledger.statement())
    assert found.value.code == "NOT_IN_LEDGER"


@pytest.mark.parametrize("part", ["all of it", "the output layer"])
def test_what_was_trained_in_between_takes_along_what_it_began_with(
    part: str, tmp_path: Path
) -> None:
    """The second training's steps are in the ledger, and not the first's, which it went on from."""
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    model, last = small_model(), small_model(seed=1)
    trained(model)  # charged nowhere
    if part == "all of it":
        trained(model, charging(ledger, "second"))
        last = model
    else:
        model[0].requires_grad_(False)
        trained(model, charging(ledger, "second"))
        last[2].load_state_dict(model[2].state_dict())
    assert refused_by(ledger, trained(last, charging(ledger, "third")))


def test_a_run_with_a_ledger_takes_no_start_that_a_training_without_charges_has_moved(
    tmp_path: Path,
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    charging(ledger, "another model")
    model = small_model()
    trained(model)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", ledger=ledger)
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    require_taken_by_no_run(run, model)


def test_a_run_with_a_loop_of_its_own_takes_no_moved_start(tmp_path: Path) -> None:
    model = small_model()
    trained(model)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t")
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    require_taken_by_no_run(run, model)


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
    assert not (tmp_path / "second").exists()
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


def left(small_start: start.Start, receipts: list[LabelledDocument], how: str, out: Path) -> None:
    """Trains a start, whose model is moved, in one of three ways."""
    if how == "private":
        train_private(small_start, receipts[:6], out)
    elif how == "open":
        claim = claims.not_private("receipts", (), training={})
        train_plain(small_start, receipts[:6], out, claim=claim)
    else:
        train_plain(small_start, receipts[:6], out, claim=claims.public((), training={}))


@pytest.mark.parametrize(
    ("first", "second"),
    [("open", "private"), ("public", "private"), ("open", "public"), ("private", "public")],
)
def test_training_without_privacy_moves_its_start_too(
    small_start: start.Start,
    receipts: list[LabelledDocument],
    first: str,
    second: str,
    tmp_path: Path,
) -> None:
    """A claim of epsilon 8 would be of weights that had read the documents in the open."""
    left(small_start, receipts, first, tmp_path / "first")
    with pytest.raises(PrivacyError) as found:
        left(small_start, receipts, second, tmp_path / "second")
    assert found.value.code == "TRAINED_BEFORE"
    assert not (tmp_path / "second").exists()


def test_what_a_checkpoint_held_when_it_was_read_its_claim_tells_of(
    small_start: start.Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left(small_start, receipts, "public", tmp_path / "public")
    begun = start.start_from(str(tmp_path / "public"), None)
    copied = replace(begun, model=copy.deepcopy(begun.model))
    left(copied, receipts, "private", tmp_path / "first")
    start.start_from(str(tmp_path / "first"), None)  # to score it, say
    with pytest.raises(PrivacyError) as found:
        left(copied, receipts, "public", tmp_path / "second")
    assert found.value.code == "TRAINED_BEFORE"
    # One of synthetic documents, whose claim a private training adds itself to.
    monkeypatch.setattr(inherited_claims, "is_inherited", lambda claim: True)
    assert starts.added_to(begun) is begun.claim  # nothing has moved it
    with pytest.raises(PrivacyError) as found:
        starts.added_to(copied)
    assert found.value.code == "TRAINED_BEFORE"


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_was_read_with_a_claim_of_protected_documents_has_none_of_its_own(
    wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a loop of one's own over a private run's model, in another process."""
    other = receipts.claim_of(trained(small_model(seed=1)), "pages")
    monkeypatch.setattr(earlier_steps, "_LEFT", {})
    model = small_model()
    earlier_steps.read(model, claims.public((), training={}))
    assert not refused(trained(copy.deepcopy(model)))
    earlier_steps.read(model, other)
    model = copy.deepcopy(model)
    assert refused(trained(nn.Sequential(model) if wrapped else model))


@pytest.mark.parametrize("same", [False, True])
def test_a_ledger_counts_a_checkpoint_that_was_charged_to_it_alone(
    same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers = [
        Ledger.create(tmp_path / name, data="pages", epsilon=9, delta=1e-5) for name in ("a", "b")
    ]
    of_start = ledgers[0] if same else ledgers[1]
    charging(ledgers[0], "another model")
    first = trained(small_model(seed=1), charging(of_start, "first"))
    claim = receipts.claim_of(first, "pages", ledger=of_start.statement())
    monkeypatch.setattr(earlier_steps, "_LEFT", {})  # as in another process
    model = small_model()
    earlier_steps.read(model, claim)
    training = trained(model, charging(ledgers[0], "second"))
    if same:
        receipts.claim_of(training, "pages", ledger=ledgers[0].statement())
        return
    with pytest.raises(PrivacyError) as found:
        receipts.claim_of(training, "pages", ledger=ledgers[0].statement())
    assert found.value.code == "TRAINED_BEFORE"


def test_a_ledger_that_counts_a_checkpoint_does_not_count_what_has_moved_it_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    first = trained(small_model(seed=1), charging(ledger, "first"))
    claim = receipts.claim_of(first, "pages", ledger=ledger.statement())
    monkeypatch.setattr(earlier_steps, "_LEFT", {})
    model = small_model()
    earlier_steps.read(model, claim)
    trained(model)  # charged nowhere
    assert refused_by(ledger, trained(model, charging(ledger, "third")))


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("new_process", [False, True])
def test_a_training_that_is_resumed_by_its_receipt_knows_what_its_start_held(
    moved: bool, new_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    if moved:
        trained(model)
    written = b""
    for charged in (0, 1, 2):
        if new_process and charged:
            monkeypatch.setattr(earlier_steps, "_LEFT", {})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        records = Records(example_records(), unit="document")
        with PrivateTraining(
            PLAN, model, optimizer, records=records, losses=squares(model)
        ) as training:
            if charged:
                training.resume(charged, receipt=Receipt.from_json(written))
            training.step()
            written = training.receipt.to_json()
    assert refused(training) is moved
    assert (b"begun_with" in written) is moved


def test_what_a_start_held_stays_with_the_trainer(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=9, delta=1e-5)
    model = small_model()
    for run in ("first", "second"):
        training = trained(model, charging(ledger, run))
    assert training.receipt.begun_with
    claim = receipts.claim_of(training, "pages", ledger=ledger.statement())
    assert "begun_with" not in claim.training["receipt"]
    said = testimony.Testimony.of(3, training.receipt, None).executed
    assert said == json.loads(json.dumps(training.receipt.told()))
    assert "begun_with" not in (said or {})


def test_nor_has_it_one_when_it_goes_on() -> None:
    model = small_model()
    earlier_steps.read(model, receipts.claim_of(trained(small_model(seed=1)), "pages"))
    records = Records(example_records(), unit="document")
    receipt = None
    for charged in (0, 1):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with PrivateTraining(
            PLAN, model, optimizer, records=records, losses=squares(model)
        ) as training:
            if receipt is not None:
                training.resume(charged, receipt=receipt)
            training.step()
            receipt = training.receipt
            if charged:
                list(training)
    assert refused(training)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("new_process", [False, True])
def test_a_run_that_goes_on_knows_what_its_start_held(
    moved: bool, new_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = small_model()
    if moved:
        trained(start)
    records = Records(example_records(), unit="document")

    def run(model: nn.Module, *, resume: bool) -> PrivateTraining[torch.Tensor]:
        opened = PrivateRun.open(tmp_path / "run", PLAN, resume=resume)
        with PrivateTraining(
            PLAN,
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            records=records,
            losses=squares(model),
            charge=opened.charge,
        ) as training:

            def cut(number: int) -> None:
                if number == 2 and not resume:
                    raise KeyboardInterrupt

            opened.train(training, save_every=0.0, before=cut)
        return training

    with pytest.raises(KeyboardInterrupt):
        run(start, resume=False)
    if new_process:
        monkeypatch.setattr(earlier_steps, "_LEFT", {})
    training = run(small_model(seed=1), resume=True)
    assert training.charged == training.receipt.steps == PLAN.steps
    assert refused(training) is moved


def test_a_private_checkpoint_is_read_as_what_private_steps_have_left(
    small_start: start.Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    left(small_start, receipts, "private", tmp_path / "first")
    earlier_steps._LEFT.clear()  # as in another process
    begun = start.start_from(str(tmp_path / "first"), None)
    assert earlier_steps.begun_with(begun.model)


def test_a_moved_start_makes_no_roster(
    small_start: start.Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    left(small_start, receipts, "private", tmp_path / "first")
    refused_before_it_is_read: Any = None
    with pytest.raises(PrivacyError) as found:
        federated_parties.roster_of(
            refused_before_it_is_read,
            small_start,
            federated_parties.FederatedSettings(),
            coordinator=refused_before_it_is_read,
            clients=(),
        )
    assert found.value.code == "TRAINED_BEFORE"


def test_a_ledger_of_other_runs_does_not_count_what_a_start_holds(
    small_start: start.Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=30, delta=1e-5)
    fresh = replace(small_start, model=copy.deepcopy(small_start.model))
    left(small_start, receipts, "private", tmp_path / "first")  # without a ledger
    told: dict[str, Any] = {"ledger": ledger, "settings": OUTPUT}
    train_private(fresh, receipts[:6], tmp_path / "second", **told)
    with pytest.raises(PrivacyError) as found:
        train_private(small_start, receipts[:6], tmp_path / "third", **told)
    assert found.value.code == "TRAINED_BEFORE"
    train_private(fresh, receipts[:6], tmp_path / "fourth", **told)  # counted there twice
