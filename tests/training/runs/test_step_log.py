"""The log of steps, and what is shown of them: epsilon where a line is due."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hushdoc.errors import CheckpointError
from hushdoc.system import progress
from hushdoc_training.runs import step_log
from hushdoc_training.runs.step_log import StepLog, StepReport, last_charge, read_log


def report(
    path: Path, steps: int, quiet: bool, epsilon_after: Callable[[int], float] | None
) -> StepReport:
    StepLog.begin(path / "steps.jsonl", "run")
    log = StepLog(path / "steps.jsonl", "run", private=False)
    return StepReport(
        log, path / "plot.png", steps=steps, epsilon_after=epsilon_after, title="t", quiet=quiet
    )


def test_epsilon_is_computed_for_shown_lines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    for module in (progress, step_log):
        monkeypatch.setattr(module, "monotonic", lambda: now)
    asked: list[int] = []

    def epsilon_after(step: int) -> float:
        nonlocal now
        asked.append(step)
        now += 1  # what exact accounting may take
        return step / 10

    shown = report(tmp_path, 400, False, epsilon_after)
    for step in range(1, 401):
        now += 0.1
        shown.show(step, loss=1.0)
    # Forty seconds of steps: at the start, after 20 times its cost again, and at the end.
    assert asked[0] == 1
    assert asked[-1] == 400
    assert len(asked) <= 4
    logged = {entry["step"]: entry["epsilon"] for entry in read_log(tmp_path / "steps.jsonl")[1:]}
    assert {step: value for step, value in logged.items() if value is not None} == {
        step: step / 10 for step in asked
    }
    printed = capsys.readouterr().err
    assert printed.count("epsilon") == len(asked)
    assert printed.endswith("step 400/400  loss 1.000  epsilon 40.00  0 s left\n")


def test_quiet_training_still_logs_epsilon_now_and_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = report(tmp_path, 50, True, float)
    for step in range(1, 51):
        shown.show(step)
    shown.close()
    logged = [entry["epsilon"] for entry in read_log(tmp_path / "steps.jsonl")[1:]]
    assert [value for value in logged if value is not None] == [1.0, 50.0]
    assert capsys.readouterr().err == ""


def test_where_nothing_is_guaranteed_no_epsilon_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, 1, False, None).show(1, loss=2.0)
    assert capsys.readouterr().err == "step 1/1  loss 2.000  0 s left\n"


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
