from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "install_size.py"


def test_quick_run_counts_the_packages_of_both_installations() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    base, cpu = result["parts_mb"]["base_mb"], result["parts_mb"]["cpu_mb"]
    assert {"hushdoc", "numpy", "mmh3", "pynacl"} <= base.keys()
    assert "onnxruntime" not in base
    assert "torch" not in cpu
    assert base.keys() | {"onnxruntime", "tokenizers"} <= cpu.keys()
    assert 40 < result["base_mb"] < result["cpu_mb"] < 300
    assert result["base_mb"] < 120
