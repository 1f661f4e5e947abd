from __future__ import annotations

from typing import Any


def test_quick_run_finds_nothing_and_prints_every_figure(run: Any) -> None:
    result, printed = run(
        "hostile", "--quick", "--inputs", "600", "--seed", "7", "--processes", "1"
    )
    assert result["inputs"] >= 600
    assert result["classes"] >= 12
    assert (result["false_accepts"], result["untyped"], result["hangs"]) == (0, 0, 0), printed
    # The inputs reach the readers: some are accepted and judged, the others refused in many ways.
    assert result["accepted"] > 100
    assert result["codes"] >= 30
    assert 0 < result["slowest_seconds"] <= 2
    assert 0 < result["peak_mb"] <= 200
    assert {"goals_met", "machine", "date", "minutes", "seed"} <= result.keys()
