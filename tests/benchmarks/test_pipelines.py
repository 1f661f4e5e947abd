from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_agrees_with_pipelines_and_prints_every_figure(run: Any) -> None:
    result, printed = run("pipelines", "--quick")
    for task in ("fields", "embedding"):
        assert f"{task}: pipeline differs from hushdoc by " in printed
    assert result["quick"] is True
    ratios = {
        "fields_vs_pipeline",
        "embedding_vs_pipeline",
        "embedding_vs_onnxruntime",
        "embedding_vs_onnxruntime_sorted",
        "even_vs_onnxruntime_sorted",
    }
    assert ratios | {"cpu_ms_each", "machine", "date"} <= result.keys()
    # CPU times, so wide margins hold on a busy machine too.
    assert all(0.5 < result[name] < 20 for name in ratios)
