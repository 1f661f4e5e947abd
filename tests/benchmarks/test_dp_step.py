from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hushdoc_processes import interpreter

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "dp_step.py"


def run(*arguments: str, asked: str = "") -> dict[str, object]:
    done = interpreter(BENCHMARK, *arguments, input=asked)
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_gradients_agree_and_every_figure_is_printed() -> None:
    result = run("--quick", "--only", "t5")
    assert 0 <= result["t5_max_gradient_error"] <= 1e-5  # type: ignore[operator]
    # Of two steps each, .8 to 1.2: times depend on who else uses the machine.
    assert 0.2 < result["t5_time_ratio"] < 5  # type: ignore[operator]
    assert 0.5 < result["t5_memory_ratio"] < 2  # type: ignore[operator]
    assert 0.2 < result["t5_one_by_one_time_ratio"] < 20  # type: ignore[operator]
    assert result["quick"] is True
    assert {"t5_seconds", "t5_mb", "machine", "date", "torch", "goals_met"} <= result.keys()


@pytest.mark.slow
def test_opacus_takes_its_turns() -> None:
    for arm in ("opacus-hooks", "opacus-ghost"):
        result = run("--quick", "--turn", "", arm, asked="step\nstep\n")
        assert len(result["seconds"]) == 2  # type: ignore[arg-type]
        assert result["mb"] > 100  # type: ignore[operator]


@pytest.mark.slow
def test_whole_steps_take_their_turns() -> None:
    result = run("--quick", "--turn", "", "whole")
    for arm in ("plain", "private"):
        seconds = result[arm]
        assert set(seconds) == {"1", "2"}  # type: ignore[call-overload]
        assert min(seconds["2"]) > min(seconds["1"])  # type: ignore[index]
    assert all(second > 0 for second in result["noise"])  # type: ignore[attr-defined]


def test_both_whole_steps_take_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    whole = importlib.import_module("dp_whole_step")
    work = importlib.import_module("dp_workloads")
    seen: list[list[int]] = []
    torch.manual_seed(0)
    model, inputs = torch.nn.Linear(3, 1), torch.randn(5, 3)

    def losses_of(rows: Sequence[int]) -> torch.Tensor:
        seen.append(sorted(rows))
        return model(inputs[list(rows)]).squeeze(1).square()

    workload = work.Workload(model=model, losses_of=losses_of, rows=5)
    private, trained = whole.private_step(workload)
    for batches in (1, 4):
        before = trained.weight.detach().clone()
        seen.clear()
        private(batches)
        assert seen == [list(range(5))] * batches
        assert not torch.equal(trained.weight, before)
    model = torch.nn.Linear(3, 1)
    plain = whole.accumulating_step(work.Workload(model=model, losses_of=losses_of, rows=5))
    seen.clear()
    plain(4)
    assert seen == [list(range(5))] * 4
