from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_agrees_with_crfsuite_and_prints_every_figure(run: Any) -> None:
    result, _ = run("hashed_crf", "--quick")
    assert result["parity_mismatches"] == 0
    assert result["quick"] is True
    assert result["tokens"] == 100_000
    for level in result["levels"].values():
        # A tagger that finds nothing would agree with anybody.
        assert level["items_in_fields"] > 100
        assert level["mismatches_of_file"]["float16"] <= 10
    # Times depend on who else uses the machine; sizes don't.
    assert result["tokens_per_cpu_second_ratio"] > 5
    assert 2.09 < result["file_mb"] <= 2.2
    assert 0 < result["rss_mb"] <= 60
    assert {"load_ms", "privatise_s", "goals_met", "machine", "date"} <= result.keys()
