"""benchmarks/image_arms.py: private and test pages stay apart; a quick run prints every figure."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from hushdoc_training.data import image_sets
from hushdoc_training.data.dataset import Source


@pytest.fixture
def arms(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("image_arms")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    chance = np.random.default_rng(1)
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(15):
            gray = chance.integers(0, 256, (20, 20)).astype(np.uint8)
            Image.fromarray(gray).save(tmp_path / label / f"{number}.png")
    return tmp_path


def test_private_and_test_pages_stay_apart(arms: ModuleType, pages: Path) -> None:
    with image_sets.opened(Source(location=str(pages))) as documents:
        private, test = arms.divided(documents, 10)
        assert len(private) == 10
        assert test
        assert not {one.id for one in private} & {one.id for one in test}
        assert arms.divided(documents[::-1], 10)[0] == private
        assert arms.divided(documents, 5)[0] == private[:5]


@pytest.mark.slow
def test_a_quick_run_prints_every_figure(
    arms: ModuleType,
    pages: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = ["image_arms.py", "--data", str(pages), "--records", "10", "--quick"]
    monkeypatch.setattr(sys, "argv", told)
    assert arms.main() == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    every = ("dp_adam", "dp_linear", "evolution", "evolution_linear")
    names = {f"accuracy_{arm}_eps{epsilon}" for arm in every for epsilon in "15"}
    assert {name for name in line if name.startswith("accuracy")} == {*names, "accuracy_real"}
    assert {*line["spread"]} == {*names, "accuracy_real"}
    assert all(0 <= line[name] <= 1 for name in names)
