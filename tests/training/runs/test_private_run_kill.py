"""No kill loses a charge or leaves half a file: a run is shot at random points and resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).parents[1] / "drivers" / "run_kill_driver.py"


def shoot(folder: Path, *, kills: int) -> None:
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder), str(kills), "3"],
        capture_output=True,
        text=True,
        timeout=550,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    print(result)
    # Every kill that counts came after a charge and before the last one, at many different steps,
    # and some found a state to go on from.
    assert len(result["inside"]) == kills
    assert all(0 < charged < 60 for charged in result["inside"])
    assert len(set(result["inside"])) > kills / 3
    assert result["with_state"] > 0  # how often depends on the speed of the machine
    assert result["runs"] > kills / 20


def test_six_kills_cost_no_run_and_no_charge(tmp_path: Path) -> None:
    shoot(tmp_path, kills=6)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_kills_cost_no_run_and_no_charge(tmp_path: Path) -> None:
    shoot(tmp_path, kills=50)
