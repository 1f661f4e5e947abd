from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_a_quick_run_trains_from_both_starts(run: Any) -> None:
    result, _ = run("federated_averages", "--quick")
    for known in ("nothing", "much"):
        reached = [result[f"accuracy_{known}_{name}"] for name in ("start", "central", "k2")]
        assert all(0.4 < accuracy <= 1 for accuracy in reached)
        assert result[f"moved_{known}_k2"] > 0
    assert result["accuracy_nothing_central"] > 0.7
    assert result["accuracy_much_start"] > 0.8
