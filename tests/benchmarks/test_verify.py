from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "verify.py"


def test_quick_run_meets_the_goals_on_memory_and_prints_every_figure() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "refuse it with one byte flipped" in done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    # Times depend on who else uses the machine, memory doesn't. The ratios are about 1.0 and 1.4;
    # hashing nothing, or everything ten times, would be outside.
    assert 10 < result["baseline_memory_mb"] < result["peak_memory_mb"] <= 64
    assert 0.2 < result["ratio_500mb"] < 10
    assert 0.2 < result["ratio_20mb"] < 14
    assert result["quick"] is True
    assert result["large_mb"] == 100
    assert {"ratio_to_model_signing", "goals_met", "machine", "date"} <= result.keys()
