from __future__ import annotations

from typing import Any


def test_quick_run_counts_the_packages_of_both_installations(run: Any) -> None:
    result, _ = run("install_size", "--quick")
    base, cpu = result["parts_mb"]["base_mb"], result["parts_mb"]["cpu_mb"]
    assert {"hushdoc", "numpy", "mmh3", "pynacl"} <= base.keys()
    assert "onnxruntime" not in base
    assert "torch" not in cpu
    assert base.keys() | {"onnxruntime", "tokenizers"} <= cpu.keys()
    assert 40 < result["base_mb"] < result["cpu_mb"] < 300
    assert result["base_mb"] < 120
