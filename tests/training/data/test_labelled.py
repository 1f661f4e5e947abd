"""Files of the labelled format survive damage: an error of ours, or sound documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutated_files import survive

from hushdoc_training import invented
from hushdoc_training.data import labelled


def damage(folder: Path, *, number: int) -> None:
    config = invented.InventedConfig(document_types=("receipt",))
    invented.write(folder, seed=3, count=2, config=config)
    tally = survive(folder, labelled.read, number=number, seed=19)
    assert tally.refused["BAD_ANNOTATION"] > number / 10
    assert tally.refused["BAD_BOX"]
    assert tally.read > number / 50


def test_some_damaged_files(tmp_path: Path) -> None:
    damage(tmp_path / "set", number=150)


@pytest.mark.slow
def test_many_damaged_files(tmp_path: Path) -> None:
    damage(tmp_path / "set", number=10_000)
