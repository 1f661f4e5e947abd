"""The loop of a run in a folder: one process's at a time, with every charge that was taken."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from metered import receipt_of
from private_simulator import make_plan, small_model, training
from torch import nn

from hushdoc.errors import (
    CheckpointError,
    HushdocError,
    InputError,
    OutputWriteError,
    PrivacyError,
)
from hushdoc_training.ledger import storage
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.runs import loop, state
from hushdoc_training.runs.account import LedgerAccount, Terms
from hushdoc_training.runs.private_run import FollowedCharges, PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import StepLog, read_log

PLANNED = 4
PLAN = make_plan(noise_multiplier=2.0, steps=PLANNED)
During = Callable[[int], None]


class Process:
    """A run of a small model, as one process opens it."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.run = PrivateRun.open(folder, PLAN, resume=resume)
        self.model = small_model()
        self.taken: list[int] = []

    def go(self, during: During = lambda step: None, *, save_every: float = 120.0) -> bool:
        def seen(step: Any) -> None:
            self.taken.append(step.number)
            during(step.number)

        with training(self.model, draws=[[1]] * PLANNED, plan=PLAN, charge=self.run.charge) as made:
            return self.run.train(made, seen=seen, save_every=save_every)


class PublicProcess:
    """The same without privacy."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.run = Run.open(folder, {"steps": PLANNED}, resume=resume)
        self.taken: list[int] = []

    def go(self, during: During = lambda step: None, *, loss: float = 0.0) -> loop.Outcome:
        model = nn.Linear(2, 1)

        def step(number: int) -> float:
            self.taken.append(number)
            during(number)
            return loss

        return loop.train_without_privacy(
            self.run,
            steps=PLANNED,
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            step=step,
            save=lambda folder: folder.mkdir(),
            title="",
            quiet=True,
        )


def crash_at(number: int) -> During:
    def crash(step: int) -> None:
        if step == number:
            raise RuntimeError("power is gone")

    return crash


def test_a_run_that_is_being_trained_is_nobody_elses(tmp_path: Path) -> None:
    """Not of one that resumes now, and not of one that opened the folder before."""
    first = Process(tmp_path / "run", resume=False)
    second = Process(tmp_path / "run", resume=True)

    def intrude(step: int) -> None:
        partial = tmp_path / "run" / ".state-00000009.0123abcd.partial"
        partial.mkdir()
        with pytest.raises(PrivacyError, match="by another process"):
            Process(tmp_path / "run", resume=True)
        assert partial.is_dir()  # what the first one is writing
        partial.rmdir()
        with pytest.raises(PrivacyError, match="by another process"):
            second.go()

    assert first.go(intrude)
    assert first.taken == [1, 2, 3, 4]
    # Afterwards the second one finds what was taken meanwhile, and takes no step again.
    assert second.go()
    assert second.taken == []
    pairs = zip(first.model.parameters(), second.model.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)
    assert StepLog(tmp_path / "run" / "steps.jsonl", read_id(tmp_path / "run")).charged == PLANNED


def read_id(folder: Path) -> str:
    return Run.read(folder).run_id


def test_steps_that_another_process_took_are_not_taken_again(tmp_path: Path) -> None:
    first = Process(tmp_path / "run", resume=False)
    second = Process(tmp_path / "run", resume=True)
    with pytest.raises(RuntimeError, match="power"):
        first.go(crash_at(3))
    second.go()
    assert (first.taken, second.taken) == ([1, 2, 3], [4])


def test_steps_before_one_that_cannot_be_charged_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were lost, all since the last saved state, where a ledger was busy for too long."""
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=99, delta=PLAN.delta)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", ledger=ledger)
    monkeypatch.setattr(storage, "BUSY_SECONDS", 0.01)

    def go(held: int, *, resume: bool) -> list[int]:
        run, taken = PrivateRun.open(tmp_path / "run", PLAN, terms=terms, resume=resume), []

        def seen(step: Any) -> None:
            taken.append(step.number)
            if step.number == held:
                other.execute("BEGIN IMMEDIATE")

        model = small_model()
        with (
            closing(sqlite3.connect(ledger.path, isolation_level=None)) as other,
            training(model, draws=[[1]] * PLANNED, plan=PLAN, charge=run.charge) as made,
        ):
            run.train(made, seen=seen)
        return taken

    with pytest.raises(OutputWriteError, match="was busy"):
        go(2, resume=False)
    assert [place.name for place in (tmp_path / "run").glob("state-*")] == ["state-00000002"]
    assert go(0, resume=True) == [3, 4]


@pytest.mark.parametrize("cut", [b'{"step": 4, "epsi', b'{"receipt": {"cli'])
def test_a_line_that_is_cut_after_the_last_charge_is_no_further_step(
    tmp_path: Path, cut: bytes
) -> None:
    """It counted as a step that the plan has not, so that nothing could finish the run."""
    folder = tmp_path / "run"
    with pytest.raises(RuntimeError, match="power"):
        Process(folder, resume=False).go(crash_at(PLANNED), save_every=0)
    with (folder / "steps.jsonl").open("ab") as log:
        log.write(cut)
    resumed = Process(folder, resume=True)
    with pytest.warns(UserWarning, match=r"1 charged step after .* \(step 3\) .*no step is left"):
        assert resumed.go()
    assert resumed.taken == []
    assert Process(folder, resume=True).go()


def test_training_that_spends_nothing_goes_on_from_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits until its log is on the disk, so that a crash may take the last lines."""
    folder = tmp_path / "run"
    monkeypatch.setattr(loop, "SAVE_EVERY_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="power"):
        PublicProcess(folder, resume=False).go(crash_at(3))
    for left in (b"", b"\x00\x00\n{", None):
        (folder / "steps.jsonl").unlink(missing_ok=True)
        if left is not None:
            (folder / "steps.jsonl").write_bytes(left)
        again = PublicProcess(folder, resume=True)
        with pytest.raises(RuntimeError, match="power"):
            again.go(crash_at(3))
        assert again.taken == [3]
    assert read_log(folder / "steps.jsonl")[0] == {"run": read_id(folder)}


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_training_ends_at_a_loss_that_is_no_number(tmp_path: Path, loss: float) -> None:
    process = PublicProcess(tmp_path / "run", resume=False)
    with pytest.raises(HushdocError, match="step 1 is .*smaller learning rate") as refused:
        process.go(loss=loss)
    assert (process.taken, refused.value.code) == ([1], "NOT_FINITE")
    assert not [*(tmp_path / "run").glob("state*")]


@pytest.mark.parametrize("number", [1, 3, PLANNED])
def test_training_that_spends_nothing_takes_lost_steps_again(tmp_path: Path, number: int) -> None:
    """They were left out, and what a crash in the last one left was called finished."""
    folder = tmp_path / "run"
    with pytest.raises(RuntimeError, match="power"):
        PublicProcess(folder, resume=False).go(crash_at(number))
    again = PublicProcess(folder, resume=True)
    assert again.go() == loop.Outcome(charged=PLANNED, interrupted=False)
    assert again.taken == [1, 2, 3, 4]


def test_training_that_spends_nothing_and_is_finished_takes_no_step(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    PublicProcess(folder, resume=False).go()
    assert [entry.name for entry in folder.iterdir() if entry.is_dir()] == ["checkpoint"]
    (folder / "state-00000004").mkdir()  # a kill came before it was gone
    again = PublicProcess(folder, resume=True)
    assert again.go() == loop.Outcome(charged=PLANNED, interrupted=False)
    assert again.taken == []
    assert not [*folder.glob("state-*")]


def test_the_lock_goes_with_the_process_that_holds_it(tmp_path: Path) -> None:
    first = Process(tmp_path / "run", resume=False)
    with pytest.raises(RuntimeError, match="power"):
        first.go(crash_at(2))
    with state.locked(tmp_path / "run" / "run.json"):
        pass


def test_a_process_that_was_forked_while_training_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.touch()
    with state.locked(path):
        child = os.fork()
        if not child:
            signal.pause()
    try:
        with state.locked(path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_process_that_does_not_know_the_ledger_makes_no_claim(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=99, delta=PLAN.delta)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", ledger=ledger)
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    receipt = receipt_of(PLAN)
    with pytest.raises(PrivacyError, match="has charged 0") as refused:
        run.claim(receipt)
    assert refused.value.code == "NOT_CHARGED"
    run.charge(PLAN.steps)
    assert run.claim(receipt).protected_data[0].commitment is not None
    with pytest.raises(PrivacyError, match="first process"):
        replace(run, account=LedgerAccount()).claim(receipt)


def test_no_process_but_the_first_makes_the_claim_of_a_run(tmp_path: Path) -> None:
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t")
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    other = replace(run, charges=FollowedCharges(PLAN.steps), group=Group(rank=1, size=2))
    with pytest.raises(PrivacyError, match="first process"):
        other.claim(receipt_of(PLAN))


@pytest.mark.parametrize(("taken", "tuning"), [(2, "unaccounted"), (PLANNED, "none")])
def test_a_claim_before_the_last_step_says_so(tmp_path: Path, taken: int, tuning: str) -> None:
    """When to end may have been told by a loss."""
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t")
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    run.charge(taken)
    claim = run.claim(receipt_of(PLAN, taken=taken))
    assert claim.guarantees[0].hyperparameter_tuning == tuning
    assert claim.transcripts == {"training": PLAN.mechanism()}


@pytest.mark.parametrize(
    ("unit", "delta", "code"),
    [("provider", PLAN.delta, "WRONG_UNIT"), ("document", 1e-9, "WRONG_DELTA")],
)
def test_a_run_that_its_ledger_does_not_count_for_takes_no_folder(
    tmp_path: Path, unit: str, delta: float, code: str
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="pages", epsilon=99, delta=delta, unit=unit)
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", ledger=ledger)
    with pytest.raises(InputError) as refused:
        PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    assert refused.value.code == code
    assert not (tmp_path / "run").exists()
    assert ledger.runs() == ()


@pytest.mark.parametrize("kept", [False, True])
def test_a_run_goes_on_with_windows_as_it_began(tmp_path: Path, kept: bool) -> None:
    """A window of 512 tokens is several of 128, and the claim is of one."""
    plan = replace(PLAN, privacy_unit="sequence")
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t", cut="128 tokens")
    if kept:
        ledger = Ledger.create(
            tmp_path / "ledger", data="pages", epsilon=99, delta=plan.delta, unit="sequence"
        )
        terms = replace(terms, ledger=ledger)
    PrivateRun.open(tmp_path / "run", plan, terms=terms)
    PrivateRun.open(tmp_path / "run", plan, terms=terms, resume=True)
    for other in ("512 tokens", ""):
        with pytest.raises(CheckpointError, match="other settings: cut"):
            PrivateRun.open(tmp_path / "run", plan, terms=replace(terms, cut=other), resume=True)


def test_a_run_of_other_settings_says_which_and_whose_version_goes_on(tmp_path: Path) -> None:
    """An update changes what is chosen where nobody chose: the same command then differs."""
    terms = Terms(declared=Declared(name="pages"), documents="d", title="t")
    PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    other = replace(PLAN, clipping_norm=2 * PLAN.clipping_norm)
    with pytest.raises(CheckpointError) as refused:
        PrivateRun.open(tmp_path / "run", other, terms=terms, resume=True)
    norms = f"clipping_norm {PLAN.clipping_norm} there and {other.clipping_norm} here."
    assert norms in str(refused.value)
    assert "another version of hushdoc began it" in str(refused.value)
    terms = replace(terms, documents="ab" * 32)
    with pytest.raises(CheckpointError) as refused:
        PrivateRun.open(tmp_path / "run", PLAN, terms=terms, resume=True)
    assert "abab" not in str(refused.value)


def press_ctrl_c_at(number: int, sent: int = signal.SIGINT) -> During:
    def press(step: int) -> None:
        if step == number:
            signal.raise_signal(sent)

    return press


@pytest.mark.parametrize("process", [Process, PublicProcess])
def test_a_machine_that_is_taken_away_leaves_a_run_that_goes_on(
    process: type[Process | PublicProcess], tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopped = process(tmp_path / "run", resume=False)
    ended = stopped.go(press_ctrl_c_at(2, signal.SIGTERM))
    assert ended in (False, loop.Outcome(charged=2, interrupted=True))
    assert signal.getsignal(signal.SIGTERM) == before
    resumed = process(tmp_path / "run", resume=True)
    assert resumed.go() in (True, loop.Outcome(charged=PLANNED, interrupted=False))
    assert resumed.taken == [3, 4]


@pytest.mark.parametrize("process", [Process, PublicProcess])
def test_ctrl_c_in_the_last_step_ends_the_command_and_no_step_is_left(
    process: type[Process | PublicProcess], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt, match="after 4 steps, and saved"):
        process(tmp_path / "run", resume=False).go(press_ctrl_c_at(PLANNED))
    resumed = process(tmp_path / "run", resume=True)
    assert resumed.go() in (True, loop.Outcome(charged=PLANNED, interrupted=False))
    assert resumed.taken == []
