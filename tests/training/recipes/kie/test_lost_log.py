"""A run whose log of charged steps was lost takes no step for nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from power_cuts import PowerCut, cut_noise

from hushdoc.accounting import pld
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import settings as kie_settings
from hushdoc_training.recipes.kie import start, training
from hushdoc_training.runs import loop, run_folder
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import read_log

PLAN = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.3, steps=6, expected_records=6)


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
        return training.train_private(
            small_start,
            receipts,
            PLAN,
            kie_settings.PrivateSettings(trained="output"),
            out=tmp_path / "run",
            name="receipts",
            quiet=True,
            **settings,
        )

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


def test_a_lost_log_of_a_run_whose_steps_are_all_charged_gives_none_back(
    train: Train, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=99, delta=PLAN.delta)
    with pytest.raises(PowerCut):
        train(cut=6, ledger=ledger)
    (tmp_path / "run" / "steps.jsonl").unlink()
    with pytest.raises(CheckpointError, match="All 6 steps"):
        train(ledger=ledger, resume=True)
    assert ledger.runs()[0].charged == 6


def test_a_kill_before_the_run_is_begun_spends_nothing(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object, **__: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.atomic_files, "write_file", cut)  # the log is begun
        with pytest.raises(PowerCut):
            train()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["steps.jsonl"]
    with pytest.raises(CheckpointError, match="no run to resume"):
        train(resume=True)
    assert train().charged == 6
