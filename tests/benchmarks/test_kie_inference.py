from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kie_inference.py"


@pytest.mark.slow
def test_quick_run_answers_like_torch_and_prints_every_figure() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick"], capture_output=True, text=True, timeout=290
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["quick"] is True
    # Times depend on who else uses the machine; sizes and memory don't.
    assert result["file_mb"]["512_image.int8"] < 0.3 * result["file_mb"]["512_image.fp32"]
    assert result["memory_ratio"] < 0.4
    assert result["int8_vs_torch"] > 0.5
    assert result["fp32_vs_torch"] > 0.5
    assert result["cpu_seconds_per_call"].keys() == {"512_image", "128"}
    assert {"memory_cpu_ratio", "load_cpu_s", "hashing_share", "goals_met", "date"} <= result.keys()
