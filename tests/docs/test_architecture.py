"""The page on architecture names what there is, and the floors that import-linter holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PACKAGES = {"hushdoc": "sdk", "hushdoc_training": "training", "hushdoc_export": "export"}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(hushdoc\w*(?:\.\w+)+)`", PAGE))))
def test_every_module_that_is_named_is_there(name: str) -> None:
    if name == "hushdoc.verify":
        return
    path = ROOT / PACKAGES[name.split(".")[0]] / Path(*name.split("."))
    assert path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_figure_shows_the_floors(package: str) -> None:
    with (ROOT / "pyproject.toml").open("rb") as stream:
        contracts = tomllib.load(stream)["tool"]["importlinter"]["contracts"]
    [layers] = [item["layers"] for item in contracts if item.get("containers") == [package]]
    floors = [sorted(re.findall(r"\w+", layer)) for layer in layers if layer != "__main__"]
    start = PAGE.index(f" {package} ")
    drawn = PAGE[start + len(package) + 1 :].split("──")[0].split("```")[0].splitlines()
    lines = [re.split(r"\s{5,}", line)[-1] for line in drawn if line.strip()]
    shown = [sorted(re.findall(r"\w+", re.sub(r"\(.*?\)", "", line))) for line in lines]
    assert shown == floors
