from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_finds_that_bands_leave_less_noise_and_full_batches_least(run: Any) -> None:
    result, _ = run("correlated_noise", "--quick")
    found = {name: ratios["last"] for name, ratios in result["over_independent_noise"].items()}
    assert set(found) == {"hundreds, full batches", "hundreds, 2 bands"}
    assert found["hundreds, full batches"] < found["hundreds, 2 bands"] < 1
