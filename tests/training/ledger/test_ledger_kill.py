"""No kill loses a charge: training is shot at random points, again and again, and resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).parents[1] / "drivers" / "ledger_kill_driver.py"


def shoot(folder: Path, *, kills: int, seed: int, timeout: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder), str(kills), str(seed)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(result)
    return result


def test_three_kills_lose_no_charge(tmp_path: Path) -> None:
    result = shoot(tmp_path, kills=3, seed=1, timeout=280)
    assert result["kills"] == 3
    assert 0 < result["witnessed"] <= result["charged"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_lose_no_charge(tmp_path: Path) -> None:
    result = shoot(tmp_path, kills=50, seed=2, timeout=850)
    assert result["kills"] == 50
    assert 0 < result["witnessed"] <= result["charged"]
    assert result["epsilon"] <= 8
