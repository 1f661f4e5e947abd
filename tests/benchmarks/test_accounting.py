from __future__ import annotations

from typing import Any

import pytest

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
def test_quick_run_meets_the_goals(run: Any) -> None:
    result, _ = run("accounting", "--quick")
    assert set(result) >= KEYS
    assert result["quick"] is True
    assert result["grid_size"] >= 25
    assert 0 <= result["min_relative_gap"] <= result["max_relative_gap"] <= 0.01
    # Goals of an idle machine, with room for a busy one.
    assert result["fast_ms"] <= 20 * 5
    assert result["exact_ms"] <= 1000
