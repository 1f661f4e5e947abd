from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("kie_sweeps")


@pytest.mark.slow
def test_quick_run_draws_a_figure_and_goes_on(run: Any, tmp_path: Path) -> None:
    plots, work = tmp_path / "plots", tmp_path / "work"
    told = ("--quick", "--only", "clipping-norm", "--work", str(work), "--plots", str(plots))
    result, printed = run("kie_sweeps", *told)
    (figure,) = result["figures"].values()
    assert figure["of"] == "figure 4"
    assert [(point["x"], point["runs"]) for point in figure["points"]] == [(0.01, 1), (10, 1)] * 2
    assert all(0 <= point["f1"] <= 1 for point in figure["points"])
    assert all(point["noise_multiplier"] > 0 for point in figure["points"])
    assert set(figure["agrees"].values()) == {None}
    assert printed.count("clipping-norm:") == 4
    with Image.open(plots / "sweep-clipping-norm.png") as drawn:
        assert drawn.size == (700, 450)
    again, printed = run("kie_sweeps", *told)
    assert again["figures"] == result["figures"]
    assert "clipping-norm:" not in printed


def test_scores_are_kept_by_setting_and_by_what_is_trained(
    sweeps: ModuleType, tmp_path: Path
) -> None:
    kept, other = (sweeps.Kept(folder=tmp_path / "scores", of=of) for of in ("these", "others"))
    points = {("line", rate): sweeps.Setting(learning_rate=rate) for rate in (0.1, 0.2)}
    low, high = points.values()
    for setting, f1 in ((low, 0.25), (high, 0.5), (low, 0.75)):
        kept.add(setting, f1)
    assert kept.scores(low) == [0.25, 0.75]
    assert kept.means(points) == {"line": {0.1: 0.5, 0.2: 0.5}}
    assert other.scores(low) == kept.scores(sweeps.Setting(learning_rate=0.3)) == []


@pytest.mark.parametrize("name", ["clipping-norm", "trained"])
def test_figures_are_drawn(sweeps: ModuleType, tmp_path: Path, name: str) -> None:
    figure = sweeps.FIGURES[name]
    scores = {line: dict.fromkeys(figure.values, 0.5) for line in figure.lines}
    sweeps.draw(figure, scores, tmp_path / "plots" / "drawn.png")
    with Image.open(tmp_path / "plots" / "drawn.png") as drawn:
        assert drawn.size == (700, 450)


def test_statements_can_be_false_and_are_unsaid_without_points(sweeps: ModuleType) -> None:
    (figure,) = (found for found in sweeps.FIGURES.values() if found.of == "figure 4")
    points = figure.settings(few=False)
    assert len(points) == 8
    assert {setting.clipping_norm for setting in points.values()} == {0.01, 0.1, 1.0, 10.0}
    small_best = {0.01: 0.6, 0.1: 0.7, 1.0: 0.5, 10.0: 0.2}
    large_best = {0.01: 0.6, 0.1: 0.7, 1.0: 0.5, 10.0: 0.8}
    line, other = figure.lines
    for scores, expected in ((small_best, True), (large_best, False)):
        found = {"clipping-norm": {line: small_best, other: scores}}
        assert {sweeps.said(holds, found) for holds in figure.statements.values()} == {expected}
    assert {sweeps.said(holds, {}) for holds in figure.statements.values()} == {None}


def test_every_statement_reads_the_points_of_its_figure(sweeps: ModuleType) -> None:
    scores: dict[str, dict[str, dict[Any, float]]] = {}
    for name, figure in sweeps.FIGURES.items():
        for line, value in figure.settings(few=False):
            scores.setdefault(name, {}).setdefault(line, {})[value] = 0.5
    for name, figure in sweeps.FIGURES.items():
        for what, holds in figure.statements.items():
            alike = what.startswith(("two thirds", "all parameters", "DP-SGD at its best"))
            worst = what.startswith("the largest norm does worst")
            assert sweeps.said(holds, scores) is (alike or worst), (name, what)
