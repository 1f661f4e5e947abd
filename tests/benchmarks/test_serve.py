"""benchmarks/serve.py: the server answers under load, and what it prints is what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra [server] is not installed")

SCRIPT = Path(__file__).parents[2] / "benchmarks/serve.py"


@pytest.mark.slow
def test_nothing_is_wrong_or_lost_under_load() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["wrong_answers"], found["lost"], found["errors_5xx"]) == (0, 0, 0)
    assert found["requests"] > 100
    assert found["hung_up"] > 0
