"""The progress line: cheap, and never above the target."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from hushdoc.errors import CheckpointError
from hushdoc_training.runs.step_log import Progress, StepLog, last_charge, read_log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_epsilon_is_computed_for_shown_lines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asked: list[int] = []

    def epsilon_after(step: int) -> float:
        nonlocal now
        asked.append(step)
        now += 0.1  # what exact accounting may take
        return step / 10

    stream = Terminal()
    progress = Progress(400, epsilon_after=epsilon_after, stream=stream)
    shown = []
    for step in range(1, 401):
        now += 0.01
        shown.append(progress.show(step, loss=1.0))
    # Four seconds of steps: at the start, every two seconds (20 times its cost), and at the end.
    assert asked[0] == 1
    assert asked[-1] == 400
    assert len(asked) <= 4
    assert [value for value in shown if value is not None] == [step / 10 for step in asked]
    assert stream.getvalue().count("epsilon") == len(asked)
    assert "step 400/400  loss 1.000  epsilon 40.00  0 s left" in stream.getvalue()


def test_quiet_training_still_logs_epsilon_now_and_then() -> None:
    stream = Terminal()
    progress = Progress(50, epsilon_after=float, stream=stream, quiet=True)
    values = [progress.show(step, loss=1.0) for step in range(1, 51)]
    progress.close()
    assert [value for value in values if value is not None] == [1.0, 50.0]
    assert stream.getvalue() == ""


def test_where_nothing_is_promised_no_epsilon_is_shown() -> None:
    stream = io.StringIO()
    progress = Progress(1, stream=stream)
    assert progress.show(1, loss=2.0) is None
    assert stream.getvalue() == "step 1/1  loss 2.000  0 s left\n"


def test_the_last_charge_is_the_largest_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    assert last_charge(read_log(path)) == 0
    StepLog.begin(path, "id")
    log = StepLog(path, "id")
    log.charge(1)
    log.finish(1, loss=1.0)
    log.charge(4)
    with path.open("ab") as stream:
        stream.write(b'{"charge": 5\xff\n[]\n')
    assert last_charge(read_log(path)) == 4
    with pytest.raises(CheckpointError, match="no entry"):  # it may have been a charge
        StepLog(path, "id")
    assert StepLog(path, "id", private=False).charged == 4


def test_a_cut_charge_counts(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    StepLog.begin(path, "id")
    log = StepLog(path, "id")
    assert log.charged == 0
    log.charge(1)
    whole = path.read_bytes()
    for cut in (b"", b'{"charge": 2}', b'{"ch', b"\x00\x00"):
        path.write_bytes(whole + cut)
        assert StepLog(path, "id").charged == (2 if cut else 1)
        assert StepLog(path, "id").charged == (2 if cut else 1)
    for line in (b"x\n", b"[]\n", b'{"charge": "2"}\n', b"\n"):
        path.write_bytes(whole + line)
        with pytest.raises(CheckpointError, match="no entry"):
            StepLog(path, "id")


def test_a_charge_is_on_the_disk_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "steps.jsonl"
    StepLog.begin(path, "run")
    log, synced, sync = StepLog(path, "run"), list[str](), os.fsync

    def watched(descriptor: int) -> None:
        sync(descriptor)
        assert os.fstat(descriptor).st_ino == path.stat().st_ino
        synced.append(path.read_text().splitlines()[-1])

    monkeypatch.setattr(os, "fsync", watched)
    log.charge(1)
    assert synced == ['{"charge": 1}']
