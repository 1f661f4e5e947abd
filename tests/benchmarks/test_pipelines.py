from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "pipelines.py"


@pytest.mark.slow
def test_quick_run_agrees_with_pipelines_and_prints_every_figure() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick"], capture_output=True, text=True, timeout=290
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for task in ("fields", "embedding"):
        assert f"{task}: pipeline differs from hushdoc by " in done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["quick"] is True
    ratios = {
        "fields_vs_pipeline",
        "embedding_vs_pipeline",
        "embedding_vs_onnxruntime_in_256",
        "even_vs_onnxruntime_in_256",
    }
    assert ratios | {"cpu_ms_each", "machine", "date"} <= result.keys()
    # CPU times, so wide margins hold on a busy machine too.
    assert all(0.5 < result[name] < 20 for name in ratios)
