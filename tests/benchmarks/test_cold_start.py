from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_agrees_with_transformers_and_prints_every_figure(run: Any) -> None:
    result, printed = run("cold_start", "--quick")
    assert "transformers: cosine to ours 1.0000" in printed
    assert result["quick"] is True
    assert result["first_embedding_vs_fastembed"] is None
    # CPU times of whole processes, so wide margins hold on a busy machine too.
    assert 0 < result["import_cpu_s"] < 0.15
    assert result["import_cpu_s"] < result["import_with_runtime_cpu_s"] < 0.75
    assert 0 < result["first_result_vs_transformers"] < 0.6
    assert 0 < result["first_embedding_vs_transformers"] < 0.6
    assert result["peak_mb"]["import_hushdoc"] < 40
    assert result["peak_mb"]["fields_hushdoc_fp32"] < result["peak_mb"]["fields_transformers"]
    assert {"goals_met", "cpu_seconds", "machine", "date"} <= result.keys()
