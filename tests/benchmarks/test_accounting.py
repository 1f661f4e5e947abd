from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "accounting.py"
KEYS = {
    "fast_ms",
    "exact_ms",
    "max_relative_gap",
    "min_relative_gap",
    "ratio_to_dp_accounting",
    "grid_size",
    "date",
    "machine",
}


@pytest.mark.slow
def test_quick_run_meets_the_goals() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick"], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result) >= KEYS
    assert result["quick"] is True
    assert result["grid_size"] >= 25
    assert 0 <= result["min_relative_gap"] <= result["max_relative_gap"] <= 0.01
    # Goals of an idle machine, with room for a busy one.
    assert result["fast_ms"] <= 20 * 5
    assert result["exact_ms"] <= 1000
