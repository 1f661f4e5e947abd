from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_meets_the_goal_and_memory_does_not_grow_with_the_roster(run: Any) -> None:
    result, _ = run("secure_sum", "--quick")
    assert result["quick"] is True
    assert 0 < result["mask_seconds_per_million"] <= result["mask_goal"]
    assert result["payload_gib_formula"] == 44.66
    for mode in ("all-or-nothing", "threshold"):
        assert set(result["client_seconds"][mode]) == {"2", "4", "8"}
    small, large = result["memory_by_registered"].values()
    assert small <= large <= small + 50
