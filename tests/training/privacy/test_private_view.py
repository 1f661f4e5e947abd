"""What is decided on un-noised numbers of a run is noted, and no claim calls it free."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from private_simulator import small_model, training

from hushdoc.certificate.claim import Claim
from hushdoc.policy.rules import check
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import MODES, PrivateView, Read
from hushdoc_training.runs import receipts
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.step_log import read_log

PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.3, steps=4, expected_records=4, accountant="rdp"
)
secret = partial(training, draws=[], coins=None, noise=None, plan=PLAN)


def tuning(claim: Claim) -> str:
    (guarantee,) = claim.guarantees
    return guarantee.hyperparameter_tuning


def refused_by_default(build: ModuleType, key: Any, claim: Claim) -> bool:
    """Asks a policy that differs from the default in who signs and how much epsilon is allowed."""
    policy = build.policy(key, max_epsilon=8, max_delta=1e-5)
    report = check(policy, dataclasses.replace(build.certify(), claim=claim))
    return "TUNING_NOT_ACCEPTED" in [rule.code for rule in report.failed]


def test_a_run_that_stopped_early_on_a_private_loss_is_not_certified_as_free(
    build: ModuleType, key: Any
) -> None:
    """Such a stop told in 40 of 40 runs whether one record was there."""
    with secret(small_model()) as made:
        for step in made:
            if step.loss is None or step.loss > 0:  # "good enough", on what was seen
                break
        claim = receipts.claim_of(made, "pages")
    assert made.charged < PLAN.steps
    assert tuning(claim) == "unaccounted"
    assert refused_by_default(build, key, claim)
    assert any("losses, an end before" in caveat for caveat in claim.caveats)


def test_choosing_the_next_runs_rate_by_the_last_runs_loss_is_not_certified_as_accounted(
    tmp_path: Path, build: ModuleType, key: Any
) -> None:
    """A ledger adds up noised outputs: the rate that a loss chose told of a record."""
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=99, delta=PLAN.delta)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", ledger=ledger)
    losses: list[float | None] = []
    found = []
    for number in range(2):
        run = PrivateRun.open(tmp_path / str(number), PLAN, terms=terms)
        rate = 1.0 if not losses or (losses[-1] or 0.0) < 1 else 0.1
        with secret(small_model(), rate=rate, charge=run.charge) as made:
            look = [lambda step: losses.append(step.loss), lambda step: None][number]
            assert run.train(made, seen=look)
        found.append(run.claim(made.receipt))
        run.close()
    assert [tuning(claim) for claim in found] == ["unaccounted", "unaccounted"]
    assert all(refused_by_default(build, key, claim) for claim in found)
    assert [run.read for run in ledger.runs()] == [("losses",), ()]


def test_a_run_whose_numbers_nobody_read_is_certified_as_before(
    build: ModuleType, key: Any
) -> None:
    with secret(small_model()) as made:
        steps = list(made)
        claim = receipts.claim_of(made, "pages")
    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert tuning(claim) == "none"
    assert not refused_by_default(build, key, claim)
    assert repr(steps[0]) == "Step(number=1, noisy_loss=None)"


def test_stopping_early_alone_is_said_too() -> None:
    """On what it was decided, nobody noted: the time that a step takes, say."""
    with secret(small_model()) as made:
        made.step()
        assert tuning(receipts.claim_of(made, "pages")) == "unaccounted"


@pytest.mark.parametrize("name", ["losses", "loss", "drawn", "nonfinite"])
def test_each_number_of_a_step_is_noted_when_it_is_read(name: str) -> None:
    with secret(small_model()) as made:
        step = made.step()
        assert made.view.unaccounted == ()
        getattr(step, name)
        assert len(made.view.unaccounted) == 1


@pytest.mark.parametrize("name", ["empty", "nonfinite"])
def test_each_count_of_a_training_is_noted_when_it_is_read(name: str) -> None:
    with secret(small_model()) as made:
        made.step()
        getattr(made, name)
        assert len(made.view.unaccounted) == 1


def test_what_is_declared_unused_is_an_assumption_of_the_guarantee() -> None:
    with secret(small_model(), view=PrivateView(declared_unused="for a lecture")) as made:
        assert [step.drawn for step in made]
        claim = receipts.claim_of(made, "pages")
    (guarantee,) = claim.guarantees
    assert guarantee.hyperparameter_tuning == "none"
    (assumed,) = [text for text in guarantee.assumes if "nothing was decided" in text]
    assert "for a lecture" in assumed
    assert "numbers of drawn records" in assumed


def opened(folder: Path, model: Any, *, resume: bool = False, **settings: Any) -> Any:
    run = PrivateRun.open(folder, PLAN, resume=resume)
    return run, secret(model, charge=run.charge, **settings)


def test_a_mark_is_on_the_disk_before_the_number_is_handed_out(tmp_path: Path) -> None:
    """And so it outlives a kill: the run that is resumed still knows."""
    run, begun = opened(tmp_path / "run", small_model())

    def look(step: Any) -> None:
        assert not [entry for entry in read_log(tmp_path / "run/steps.jsonl") if "read" in entry]
        assert step.losses is not None
        (noted,) = [e["read"] for e in read_log(tmp_path / "run/steps.jsonl") if "read" in e]
        assert noted == {"what": "losses", "declared_unused": ""}
        raise RuntimeError("power is gone")

    with begun as made, pytest.raises(RuntimeError, match="power"):
        run.train(made, seen=look)
    run, begun = opened(tmp_path / "run", small_model(), resume=True)
    with begun as made:
        assert run.train(made)
        assert made.view.unaccounted == ("losses",)
        assert tuning(receipts.claim_of(made, "pages")) == "unaccounted"


def test_numbers_that_the_disk_could_not_note_are_not_handed_out() -> None:
    view = PrivateView()

    def full(read: Read) -> None:
        raise OSError(28, "No space left on device")

    view.kept_by(full)
    with secret(small_model(), view=view) as made:
        step = made.step()
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                _ = step.loss


def test_nothing_private_stands_in_a_run_folder_unless_it_was_asked_for(tmp_path: Path) -> None:
    for mode in MODES:
        view = PrivateView.of(mode)
        run, begun = opened(tmp_path / mode, small_model(), view=view)
        with begun as made:
            report = run.report(title=mode, quiet=True)
            run.train(made, seen=report.show_step)
            report.close()
        log = (tmp_path / mode / "steps.jsonl").read_text()
        assert ('"loss"' in log) == (mode != "hidden")
        steps = [json.loads(line) for line in log.splitlines() if '"step"' in line]
        assert [step["step"] for step in steps] == [1, 2, 3, 4]
        assert steps[-1]["epsilon"] == pytest.approx(PLAN.epsilon_after(4))
        assert (view.unaccounted == ()) == (mode != "shown")
        assert (tmp_path / mode / "training.png").read_bytes().startswith(b"\x89PNG")


def test_a_view_that_was_read_before_its_run_was_opened_is_noted_there(tmp_path: Path) -> None:
    view = PrivateView()
    view.note("a score on held-out documents")
    run = PrivateRun.open(tmp_path / "run", PLAN)
    run.keep_reads_of(view)
    again = PrivateView()
    PrivateRun.open(tmp_path / "run", PLAN, resume=True).keep_reads_of(again)
    assert again.unaccounted == ("a score on held-out documents",)


def test_a_declaration_outlives_the_log_where_a_ledger_has_it(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=99, delta=PLAN.delta)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", ledger=ledger)
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    view = PrivateView(declared_unused=f"for a lecture {'on noise ' * 40}")
    run.keep_reads_of(view)
    view.note("losses")
    seen = PrivateView()
    PrivateRun.open(tmp_path / "run", PLAN, terms=terms, resume=True).keep_reads_of(seen)
    assert len(seen.assumes) == 1  # that of log and ledger is one
    (tmp_path / "run" / "steps.jsonl").unlink()
    again = PrivateRun.open(tmp_path / "run", PLAN, terms=terms, resume=True)
    with secret(small_model(), charge=again.charge) as made:
        assert again.train(made)
    (guarantee,) = again.claim(made.receipt).guarantees
    assert guarantee.hyperparameter_tuning == "accounted"
    (assumed,) = [text for text in guarantee.assumes if "nothing was decided" in text]
    assert "(losses)" in assumed
    assert "for a lecture" in assumed


def test_a_view_has_no_other_modes() -> None:
    with pytest.raises(ValueError, match="shown-unused"):
        PrivateView.of("all")
