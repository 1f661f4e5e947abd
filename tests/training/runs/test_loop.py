"""The loop of a run in a folder: one process's at a time, with every charge that was taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc_training.runs import loop, state
from hushdoc_training.runs.run_folder import STEPS, Run
from hushdoc_training.runs.step_log import StepLog

PLANNED = 4


class Training:
    """A run of a tiny model, as one process opens it."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.run = Run.open(folder, {"steps": PLANNED}, resume=resume)
        self.log = StepLog(folder / STEPS)
        self.model: Any = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.taken: list[int] = []

    def go(
        self, during: Callable[[int], None] = lambda step: None, *, private: bool = True
    ) -> loop.Outcome:
        def step(number: int) -> float:
            self.log.charge(number)
            self.taken.append(number)
            during(number)
            return 0.0

        return loop.run_steps(
            self.run,
            self.log,
            steps=PLANNED,
            model=self.model,
            optimizer=self.optimizer,
            step=step,
            epsilon_after=(lambda steps: float(steps)) if private else None,
            title="",
            quiet=True,
        )


def crash_at(number: int) -> Callable[[int], None]:
    def crash(step: int) -> None:
        if step == number:
            raise RuntimeError("power is gone")

    return crash


def test_a_run_that_is_being_trained_is_nobody_elses(tmp_path: Path) -> None:
    """Not of one that resumes now, and not of one that opened the folder before."""
    first = Training(tmp_path / "run", resume=False)
    second = Training(tmp_path / "run", resume=True)

    def intrude(step: int) -> None:
        partial = tmp_path / "run" / ".state-00000009.0123abcd.partial"
        partial.mkdir()
        with pytest.raises(PrivacyError, match="by another process"):
            Training(tmp_path / "run", resume=True)
        assert partial.is_dir()  # what the first one is writing
        partial.rmdir()
        with pytest.raises(PrivacyError, match="by another process"):
            second.go()

    assert first.go(intrude).charged == PLANNED
    assert first.taken == [1, 2, 3, 4]
    # Afterwards the second one finds what was taken meanwhile, and takes no step again.
    assert second.go() == loop.Outcome(charged=PLANNED, interrupted=False)
    assert second.taken == []
    assert torch.equal(second.model.weight, first.model.weight)
    assert StepLog(tmp_path / "run" / STEPS).charged == PLANNED


def test_steps_that_another_process_took_are_not_taken_again(tmp_path: Path) -> None:
    first = Training(tmp_path / "run", resume=False)
    second = Training(tmp_path / "run", resume=True)
    with pytest.raises(RuntimeError, match="power"):
        first.go(crash_at(3))
    second.go()
    assert (first.taken, second.taken) == ([1, 2, 3], [4])


@pytest.mark.parametrize("left", [b"", b'{"charge": 1}\n{"step": 1}\n'])
def test_a_run_that_lost_charges_is_refused(
    tmp_path: Path, left: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr(loop, "SAVE_EVERY_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="power"):
        Training(folder, resume=False).go(crash_at(3))
    assert [path.name for path in folder.glob("state-*")] == ["state-00000002"]
    whole = (folder / STEPS).read_bytes()
    (folder / STEPS).write_bytes(left)
    again = Training(folder, resume=True)
    with pytest.raises(CheckpointError, match=r"saved step 2.*charges are lost"):
        again.go()
    assert again.taken == []
    assert (folder / STEPS).read_bytes() == left
    (folder / STEPS).write_bytes(whole)
    resumed = Training(folder, resume=True)
    resumed.go()
    assert resumed.taken == [4]


def test_training_that_spends_nothing_goes_on_from_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits until its log is on the disk, so that a crash may take the last lines."""
    folder = tmp_path / "run"
    monkeypatch.setattr(loop, "SAVE_EVERY_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="power"):
        Training(folder, resume=False).go(crash_at(3), private=False)
    (folder / STEPS).write_bytes(b"")
    again = Training(folder, resume=True)
    again.go(private=False)
    assert again.taken == [3, 4]


def test_the_lock_goes_with_the_process_that_holds_it(tmp_path: Path) -> None:
    first = Training(tmp_path / "run", resume=False)
    with pytest.raises(RuntimeError, match="power"):
        first.go(crash_at(2))
    with state.held(tmp_path / "run" / "run.json"):
        pass
