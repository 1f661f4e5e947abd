from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_answers_like_torch_and_prints_every_figure(run: Any) -> None:
    result, _ = run("kie_inference", "--quick")
    assert result["quick"] is True
    # Times depend on who else uses the machine; sizes and memory don't.
    assert result["file_mb"]["512_image.int8"] < 0.3 * result["file_mb"]["512_image.fp32"]
    assert result["memory_ratio"] < 0.4
    assert result["int8_vs_torch"] > 0.5
    assert result["fp32_vs_torch"] > 0.5
    assert result["cpu_seconds_per_call"].keys() == {"512_image", "128"}
    for name in ("fp32_vs_onnxruntime", "int8_vs_torch_int8", "fp32_floor", "int8_floor"):
        assert result[name] == min(result[f"{name}_512_image"], result[f"{name}_128"])
    # Products alone can't take longer than the whole, but for what the machine does meanwhile.
    assert all(
        result[f"{kind}_floor"] > 0.8 * result[f"{kind}_vs_torch"] for kind in ("fp32", "int8")
    )
    assert {"memory_cpu_ratio", "load_cpu_s", "hashing_share", "goals_met", "date"} <= result.keys()
