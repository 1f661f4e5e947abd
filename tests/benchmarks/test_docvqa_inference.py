from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_quick_run_answers_like_torch_and_prints_every_figure(run: Any) -> None:
    result, _ = run("docvqa_inference", "--quick")
    assert result["quick"] is True
    # Times depend on who else uses the machine; sizes and memory don't.
    assert result["file_mb"]["encoder.int8"] < 0.3 * result["file_mb"]["encoder.fp32"]
    assert result["memory_mb"] < result["torch_memory_mb"]
    assert result["answers_per_cpu_second_ratio_int8"] > 0.5
    assert result["answers_per_cpu_second_ratio_fp32"] > 0.5
    assert result["questions_per_page_ratio"] > 0.5
    assert result["torch_arm"] in {"torch", "torch_static", "torch_eager"}
    expected = {"fp32_vs_torch_eager", "int8_vs_torch_int8", "pointer_vs_vt5_int8", "goals_met"}
    expected |= {"fp32_ratio_elsewhere", "int8_ratio_elsewhere"}
    assert expected <= result.keys()
