"""No kill loses a charge: training is shot at random points, again and again, and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from kills import shoot


@pytest.mark.parametrize(
    ("kills", "seed"),
    [(3, 1), pytest.param(50, 2, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_kills_lose_no_charge(tmp_path: Path, kills: int, seed: int) -> None:
    result = shoot("ledger_kill_driver", tmp_path, kills, seed, timeout=280 if kills == 3 else 850)
    assert result["kills"] == kills
    assert 0 < result["witnessed"] <= result["charged"]
    assert result["epsilon"] <= 8
