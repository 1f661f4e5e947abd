from __future__ import annotations

import sys
from typing import Any

import pytest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="CPU times of Linux")
def test_quick_run_compares_both_readers_and_prints_every_figure(run: Any) -> None:
    result, _ = run("reader_process", "--quick")
    assert result["quick"] is True
    assert result["start_ms"] > 0
    # The larger the page, the smaller the share of what the way to the process costs.
    assert 0.9 < result["full_page_ratio"] < result["small_page_ratio"] < 5
    assert {"small_page_extra_ms", "machine", "date"} <= result.keys()
