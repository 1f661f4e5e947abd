"""A run whose log of charged steps was lost takes no step for nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kie_training import OUTPUT, PLAN, train_private
from power_cuts import PowerCut, cut_noise

from hushdoc.accounting import pld
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.recipes.kie import start
from hushdoc_training.runs import loop
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import read_log

Train = Callable[..., loop.Outcome]


@pytest.fixture
def train(
    tmp_path: Path,
    small_start: start.Start,
    receipts: list[LabelledDocument],
    monkeypatch: pytest.MonkeyPatch,
) -> Train:
    """Trains the output layer in `run`; the process ends at the noise of step `cut`."""

    def run(*, cut: int | None = None, **settings: Any) -> loop.Outcome:
        cut_noise(monkeypatch, at=cut or 10**9)
        out = tmp_path / "run"
        return train_private(small_start, receipts, out, settings=OUTPUT, **settings)

    return run


def lose(log: Path, how: str) -> None:
    if how == "gone":
        log.unlink()
    else:
        log.write_text("")


@pytest.mark.parametrize("how", ["gone", "emptied"])
def test_a_lost_log_makes_no_new_run(train: Train, tmp_path: Path, how: str) -> None:
    """No state was saved, so that the folder looks like that of a run which took no step."""
    with pytest.raises(PowerCut):
        train(cut=4)
    log = tmp_path / "run" / "steps.jsonl"
    whole = log.read_bytes()
    lose(log, how)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="gone or cut.*stays spent"):
            train(resume=True)
    assert not log.is_file() or not log.read_bytes()
    log.write_bytes(whole)
    assert train(resume=True).charged == 6
    assert [entry["step"] for entry in read_log(log) if "step" in entry] == [1, 2, 3, 5, 6]


@pytest.mark.parametrize("how", ["gone", "emptied"])
def test_a_lost_log_goes_on_after_what_the_ledger_holds(
    train: Train, tmp_path: Path, how: str
) -> None:
    cap = pld.epsilon(PLAN.mechanism(), PLAN.delta)
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=cap, delta=PLAN.delta)
    log = tmp_path / "run" / "steps.jsonl"
    for cut in (3, 2):  # charged are three, then two more; the ledger's room is for six
        with pytest.raises(PowerCut):
            train(cut=cut, ledger=ledger, resume=cut == 2)
        lose(log, how)
    with pytest.raises(PrivacyError) as refused:  # nor is a new start free of the old one
        train(ledger=ledger)
    assert refused.value.code == "BUDGET_EXCEEDED"
    assert train(ledger=ledger, resume=True).charged == 6
    (run,) = ledger.runs()
    assert (run.charged, run.reserved, run.closed) == (6, 6, True)
    assert run.run_id == Run.read(tmp_path / "run").run_id
    assert [entry["step"] for entry in read_log(log) if "step" in entry] == [6]
