from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import hashed_crf


@pytest.mark.parametrize("name", hashed_crf.GOALS)
def test_each_goal_counts_at_every_level(name: str) -> None:
    reached: dict[str, Any] = {
        goal: least if least is not None else most
        for goal, (least, most) in hashed_crf.GOALS.items()
    }
    reached["ratio_to_plain_strings"] = {"sentence": 20, "token": 20}
    assert hashed_crf.goals_met(reached)
    least, _ = hashed_crf.GOALS[name]
    change = -0.1 if least else 0.1
    if name == "ratio_to_plain_strings":
        missed: Any = {"sentence": 20, "token": 20 + change}
    else:
        missed = reached[name] + change
    assert not hashed_crf.goals_met({**reached, name: missed})


@pytest.mark.slow
def test_quick_run_agrees_with_crfsuite_and_prints_every_figure(run: Any) -> None:
    result, printed = run("hashed_crf", "--quick")
    assert result["parity_mismatches"] == 0
    assert result["quick"] is True
    assert result["tokens"] == 100_000
    for level in result["levels"].values():
        # A tagger that finds nothing would agree with anybody.
        assert level["items_in_fields"] > 100
        assert level["mismatches_of_file"]["float16"] <= 10
    # Times depend on who else uses the machine; sizes don't.
    assert result["tokens_per_cpu_second_ratio"] > 5
    assert result["ratio_to_plain_strings"].keys() == result["levels"].keys()
    assert min(result["ratio_to_plain_strings"].values()) > 2
    assert 2.09 < result["file_mb"] <= 2.2
    assert 0 < result["rss_mb"] <= 60
    assert {"load_ms", "privatise_s", "machine", "date"} <= result.keys()
    assert result["goals_met"] is hashed_crf.goals_met(result)
    assert all(f"{name}: {result[name]} (goal: " in printed for name in hashed_crf.GOALS)
