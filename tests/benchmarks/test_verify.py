from __future__ import annotations

from typing import Any


def test_quick_run_meets_the_goals_on_memory_and_prints_every_figure(run: Any) -> None:
    result, printed = run("verify", "--quick")
    assert "refuse it with one byte flipped" in printed
    # Times depend on who else uses the machine, memory doesn't. The ratios are about 1.0 and 1.4;
    # hashing nothing, or everything ten times, would be outside.
    assert 10 < result["baseline_memory_mb"] < result["peak_memory_mb"] <= 64
    assert 0.2 < result["ratio_500mb"] < 10
    assert 0.2 < result["ratio_20mb"] < 14
    assert result["quick"] is True
    assert result["large_mb"] == 100
    assert {"ratio_to_model_signing", "goals_met", "machine", "date"} <= result.keys()
