from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_trains_by_each_recipe(run: Any) -> None:
    result, _ = run("kie_recipes", "--quick", "--only", "hundreds", "thousands")
    assert result["recipe"] == {"8": "tens"}
    assert set(result["f1"]["8"]) == {"hundreds", "thousands"}
    assert all(0 <= f1 <= 1 for f1 in result["f1"]["8"].values())
    assert result["best"]["8"] in result["f1"]["8"]
    assert result["quick"] is True
