from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "dp_step.py"


def run(*arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_gradients_agree_and_every_figure_is_printed() -> None:
    result = run("--quick", "--only", "t5")
    assert 0 <= result["t5_max_gradient_error"] <= 1e-5  # type: ignore[operator]
    # Of two steps each, .8 to 1.2: times depend on who else uses the machine.
    assert 0.2 < result["t5_time_ratio"] < 5  # type: ignore[operator]
    assert 0.5 < result["t5_memory_ratio"] < 2  # type: ignore[operator]
    assert result["quick"] is True
    assert {"t5_seconds", "t5_mb", "machine", "date", "torch", "goals_met"} <= result.keys()


@pytest.mark.slow
def test_opacus_takes_its_turns() -> None:
    for arm in ("opacus-hooks", "opacus-ghost"):
        result = run("--quick", "--turn", "", arm)
        assert len(result["seconds"]) == 2  # type: ignore[arg-type]
        assert result["mb"] > 100  # type: ignore[operator]
