from __future__ import annotations

from typing import Any


def test_quick_run_times_every_step_and_its_floor(run: Any) -> None:
    result, _ = run("crf_steps", "--quick")
    assert result["quick"] is True
    assert result["ns_for_each_token"].keys() == {"sentence", "token"}
    for level, spent in result["ns_for_each_token"].items():
        assert spent["steps"].keys() == {"sentences", "tokens", "features", "scores", "labels"}
        assert ("sort" in spent["floor"]) == (level == "sentence")
        assert 0 < sum(spent["floor"].values()) < sum(spent["steps"].values())
