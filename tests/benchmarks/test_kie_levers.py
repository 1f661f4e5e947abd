from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_prints_every_lever(run: Any) -> None:
    result, _ = run("kie_levers", "--quick", "--only", "plain", "--only", "whitened_momentum")
    assert set(result["f1"]) == {"plain", "whitened_momentum"}
    assert all(0 <= mean <= 1 and spread == 0 for mean, spread in result["f1"].values())
    assert result["quick"] is True
