from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_prints_every_lever(run: Any) -> None:
    levers = {"plain", "whitened_momentum", "corrected", "public_moments", "renamed_named"}
    levers |= {"twice_the_steps", "full_batches_momentum"}
    result, _ = run("kie_levers", "--quick", *(word for one in levers for word in ("--only", one)))
    assert set(result["f1"]) == levers
    assert all(0 <= mean <= 1 and spread == 0 for mean, spread in result["f1"].values())
    assert set(result["f1_renamed"]) == {"zero", "random", "named", "fresh"}
    assert result["quick"] is True
