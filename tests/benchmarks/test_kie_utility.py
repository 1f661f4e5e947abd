from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny
import hushdoc_tiny_models
import pytest

from hushdoc.__main__ import main
from hushdoc.commands.command_line import build_parser
from hushdoc_training.commands import kie_settings
from hushdoc_training.recipes.kie import recipe
from hushdoc_training.recipes.kie.start import Start

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

ALL_STARTS = {"f1_public", "f1_nonprivate", "f1_dp_eps8_document", "f1_dp_eps20_document"}
KEYS = ALL_STARTS | {
    "f1_dp_eps1_document",
    "f1_dp_eps3_document",
    "f1_dp_eps8_sequence",
    "retention_eps8_document",
    "retention_eps8_sequence",
    "gain_kept_eps8",
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_quick_run_prints_every_figure_and_goes_on(run: Any, funsd: Path, tmp_path: Path) -> None:
    told = ("--quick", "--data", str(funsd), "--work", str(tmp_path / "work"))
    part = ("--starts", "invented", "--arms", "dp_eps1_document", "--workers", "1")
    result, printed = run("kie_utility", *told, *part)
    assert printed.count("$ hushdoc train") == 2
    assert set(result) >= KEYS
    found = {key for key in KEYS if result[key] is not None}
    assert found == {"f1_public", "f1_dp_eps1_document"}
    assert {key for key, count in result["seeds"].items() if count} == {"f1_dp_eps1_document"}
    assert set(result["starts"]) == {"invented"}
    result, printed = run("kie_utility", *told)
    assert set(result["seeds"].values()) == {1}
    assert set(result["starts"]) == {"raw", "invented"}
    assert set(result["starts"]["raw"]) >= ALL_STARTS
    assert result["starts"]["raw"]["kept_labels"] == []
    assert result["starts"]["invented"]["kept_labels"] == ["answer", "header", "question"]
    assert result["num_held_out"] == 3
    assert result["quick"] is True
    assert "PrIeD-KIE, table 2" in printed
    assert set(result["missed"]) <= {*KEYS}
    assert printed.count("$ hushdoc train") == 9
    again, printed = run("kie_utility", *told)
    assert again["starts"] == result["starts"]
    assert "$ hushdoc train" not in printed


def test_what_is_kept_is_told_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kie_utility = importlib.import_module("kie_utility")
    scores = {
        "not_private": [0.7, 0.9],
        "dp_eps8_document": [0.68, 0.72],
        "dp_eps8_sequence": [0.6, 0.6],
    }
    found = kie_utility.figures(scores, 0.6)
    assert found["f1_public"] == 0.6
    assert found["f1_nonprivate"] == 0.8
    assert found["retention_eps8_document"] == 0.875
    assert found["retention_eps8_sequence"] == 0.75
    assert found["gain_kept_eps8"] == 0.5
    assert kie_utility.figures(scores, 0.9)["gain_kept_eps8"] is None  # training gained nothing
    assert kie_utility.missed("funsd", found) == {
        "retention_eps8_sequence": round(78.22 / 90.22 - 0.75, 4),
        "gain_kept_eps8": 0.1,
    }
    assert kie_utility.missed("receipts of one's own", found) == {}
    assert kie_utility.spread([0.6]) is None


def tiny_start() -> Start:
    return Start(
        model=hushdoc_tiny_models.model("layoutlm"),
        tokenizer_json=hushdoc_tiny.tokenizer_json(),
        preprocessing=hushdoc_tiny.preprocessing(),
        labels=hushdoc_tiny.LABELS,
        claim=None,
        name="tiny",
    )


@pytest.mark.parametrize("windows", [150, 250, 2200])
def test_the_papers_terms_are_asked_for_with_the_settings_of_the_recipe(
    windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kie_utility = importlib.import_module("kie_utility")
    start = tiny_start()
    told = kie_utility.terms(windows, start).split()
    options = build_parser().parse_args(["train", "kie", "--data", "-", "--out", "-", *told])
    expected = recipe.fitting(recipe.of_size(windows).private, start.model)
    assert kie_settings.private(options) == replace(expected, recipe="pried-kie")


def test_the_papers_terms_are_asked_for_by_a_presets_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kie_utility = importlib.import_module("kie_utility")
    asked = ("train", "kie", "--data", "nowhere", "--out", "run", "--plan")
    assert main([*asked, *kie_utility.terms(250, tiny_start()).split()]) == 0
    printed = capsys.readouterr().out
    assert "120 steps of about 125 records (sampling rate 0.5)" in printed  # of our recipe
    assert "epsilon 8 at delta 0.004 for each sequence" in printed
    assert kie_utility.spread([]) is None
    assert kie_utility.shown([0.7, 0.9]) == "0.800 (0.141) x2"


def test_what_no_part_has_trained_is_null_and_no_goal_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    kie_utility = importlib.import_module("kie_utility")
    found = kie_utility.figures({"dp_eps8_document": [0.7], "not_private": []}, 0.6)
    assert set(found) == KEYS
    assert {key for key in KEYS if found[key] is not None} == {"f1_public", "f1_dp_eps8_document"}
    assert kie_utility.missed("funsd", found) == {}
    assert kie_utility.shown([]) == "-"


def test_only_scores_of_the_same_training_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    own_data = importlib.import_module("own_data")
    pages = own_data.Pages(train=[], held_out=[], labels=["total"])
    place = own_data.Place(data=tmp_path / "sroie", folder=tmp_path, scale=own_data.FULL)
    for name, words, more in (
        ("arm-10", "--epsilon 3 --seed 10", {"f1": 0.5}),
        ("arm-2", "--epsilon 3 --seed 2", {"f1": 0.4}),
        ("arm-1", "--epsilon 4 --seed 1", {"f1": 0.1}),  # another training
        ("arm-3", "--epsilon 3 --seed 3", {}),  # not finished
        ("other-0", "--epsilon 3 --seed 0", {"f1": 0.1}),
    ):
        content = {"words": pages._told(place, "start", words), **more}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert pages.finished(place, "arm", "start", "--epsilon 3") == [0.4, 0.5]
    assert pages.finished(place, "arm", "another start", "--epsilon 3") == []
