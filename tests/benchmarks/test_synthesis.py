"""benchmarks/synthesis.py: its measures are what they say, and a quick run prints every figure."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hushdoc import labelled_files
from hushdoc_training import invented
from hushdoc_training.recipes.synthesis import page_squares
from hushdoc_training.recipes.synthesis.diffusion_settings import PretrainingSettings
from hushdoc_training.runs.run_folder import Run


@pytest.fixture
def synthesis(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("synthesis")


def test_the_energy_distance_is_zero_of_equal_points_and_twice_that_of_two(
    synthesis: ModuleType,
) -> None:
    points = np.eye(4)
    assert synthesis.energy(points, points) == pytest.approx(0.0)
    assert synthesis.energy(points[:1], points[:1] + 3.0) == pytest.approx(12.0)


def test_a_tagger_learns_what_its_documents_say(synthesis: ModuleType) -> None:
    config = invented.InventedConfig(document_types=("receipt",), labels="sroie")
    documents = list(invented.documents(seed=3, count=12, config=config))
    labels = ["company", "date", "total"]
    model = synthesis.fitted(documents, labels, 0)
    assert synthesis.f1(model, documents, labels) > 0.5
    assert synthesis.f1(synthesis.Tagger(4), documents, labels) == 0.0
    assert synthesis.used(documents, labels)
    assert not synthesis.used(documents, ["iban"])


def test_both_ways_to_sum_losses_agree(synthesis: ModuleType) -> None:
    torch.manual_seed(0)
    ids, names = torch.randint(0, 99, (3, 7, 14)), torch.randint(0, 4, (3, 7))
    names[0, 4:], names[2] = -1, -1
    model = synthesis.Tagger(4)
    torch.nn.init.normal_(model.weights.weight)
    whole = synthesis.losses_of(model, ids, names).mean()
    assert synthesis.loss_of(model, ids, names).item() == pytest.approx(whole.item(), rel=1e-5)


def test_ad_buys_are_scored_by_what_invoices_have_too(synthesis: ModuleType) -> None:
    config = invented.InventedConfig(document_types=("invoice",), labels="fields")
    made = list(invented.documents(seed=1, count=4, config=config))
    named = [synthesis.named_alike(one, ["advertiser", "gross_amount"]) for one in made]
    labels = {span.label for one in named for span in one.spans}
    assert {"advertiser", "gross_amount"} <= labels
    assert synthesis.scored_labels(named) == sorted(labels & {*synthesis.ALIKE.values()})
    assert [synthesis.named_alike(one, ["company", "total"]) for one in made] == made


@pytest.mark.slow
def test_a_quick_run_prints_every_figure(run: Any, tmp_path: Path) -> None:
    config = invented.InventedConfig(document_types=("receipt",), labels="sroie")
    data = tmp_path / "receipts.jsonl"
    labelled_files.write(data, invented.documents(seed=3, count=30, config=config))
    result, _ = run("synthesis", "evolution", "--data", data, "--quick")
    arms = ("generator", "generator_type_known", "eps1", "eps8", "noiseless", "real")
    for name in arms:
        assert result[f"energy_{name}"] >= 0
        assert 0 <= result[f"f1_{name}"] <= 1
    assert result["quick"] is True


def test_the_frechet_distance_of_moved_points_is_how_far_they_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    arms = import_module("diffusion_arms")
    points = np.random.default_rng(0).normal(size=(50, 3))
    assert arms.fid(points, points) == pytest.approx(0.0, abs=1e-9)
    assert arms.fid(points, points + [3.0, 4.0, 0.0]) == pytest.approx(25.0)
    twice = 2 * points
    assert arms.fid(points, twice) == pytest.approx(
        np.trace(np.cov(points, rowvar=False)) + (points.mean(0) ** 2).sum()
    )


def test_a_kept_start_of_other_public_pages_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    arms = import_module("diffusion_arms")
    settings = PretrainingSettings()
    for documents in (page_squares.digest([]), "others"):
        out = tmp_path / documents
        Run.open(out, {**asdict(settings), "documents": documents}, resume=False)
        (out / "checkpoint").mkdir()
    assert arms.pretrained([], settings, tmp_path / page_squares.digest([]), None)
    with pytest.raises(SystemExit, match="other documents"):
        arms.pretrained([], settings, tmp_path / "others", None)
    other = replace(settings, steps=1)
    with pytest.raises(SystemExit, match="other steps"):
        arms.pretrained([], other, tmp_path / page_squares.digest([]), None)


def test_an_arm_that_is_kept_is_not_run_again_and_one_that_differs_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    arms = import_module("diffusion_arms")
    runs = iter(range(99))

    def made() -> dict[str, float]:
        return {"accuracy": float(next(runs))}

    for expected in (0, 1):
        figures = arms.Figures(tmp_path, {"private": "digest"})
        for seed in (0, 1):
            figures.note({"arm": "real", "seed": seed}, made)
        assert figures.found == {"accuracy": [0.0, 1.0]}
        assert figures.kept == 2 * expected
    other = arms.Figures(tmp_path, {"private": "of others"})
    other.note({"arm": "real", "seed": 0}, made)
    assert other.found == {"accuracy": [2.0]}


def test_a_start_that_does_not_fit_is_refused_before_anything_is_read(run_of_arms: Any) -> None:
    for told in (("all", "none"), ("denoisers", "public"), ("layouts", "layout+class")):
        with pytest.raises(SystemExit, match="goes with --condition"):
            run_of_arms("--data", "nowhere", "--trained", told[0], "--condition", told[1])


@pytest.fixture
def run_of_arms(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    arms = import_module("diffusion_arms")

    def run(*words: str) -> Any:
        parser = argparse.ArgumentParser()
        arms.add_options(parser)
        return arms.run(parser.parse_args(words))

    return run


@pytest.mark.slow
@pytest.mark.parametrize("further", [(), ("--public", "c", "d")])
def test_a_quick_run_of_diffusion_prints_every_figure(
    run: Any, tmp_path: Path, further: tuple[str, ...]
) -> None:
    chance = np.random.default_rng(1)
    for label in "abcd":
        (tmp_path / "pages" / label).mkdir(parents=True)
        for number in range(15):
            gray = chance.integers(0, 256, (20, 20)).astype(np.uint8)
            Image.fromarray(gray).save(tmp_path / "pages" / label / f"{number}.png")
    sheets, kept = tmp_path / "sheets", ("--work", tmp_path / "work")
    command = ("synthesis", "diffusion", "--data", tmp_path / "pages", "--quick", *kept, *further)
    result, _ = run(*command, "--sheets", sheets)
    arms = ("synthetic", "synthetic_linear", "dp_adam", "dp_linear", "evolution")
    for name in ("real", *(f"{arm}_eps{epsilon}" for arm in arms for epsilon in "15")):
        assert 0 <= result[f"accuracy_{name}"] <= 1
    for name in ("fid_eps1", "fid_eps5", "fid_floor"):
        assert result[name] >= 0
    assert result["step_ratio"] > 0
    assert result["step_ratio_small"] > 0
    assert result["steps_measured"]["step_ratio_small"] == {"records": 16, "multiplicity": 1}
    assert {file.name for file in sheets.iterdir()} == {
        "diffusion-eps1.png",
        "diffusion-eps5.png",
    }
    again, _ = run(*command, "--trained", "all", "--guidance", "3", "--multiplicity", "2")
    assert (result["kept"], again["kept"]) == (0, 8)  # all but what was drawn
    assert (again["condition"], again["guidance"], again["multiplicity"]) == ("class", 3.0, 2)
    same = [name for name in result if name.startswith(("accuracy_dp", "accuracy_evolution"))]
    assert [again[name] for name in same] == [result[name] for name in same]
