"""What tests of training's subcommands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from table_commands import COMMANDS

from hushdoc.__main__ import main
from hushdoc_training.commands.table_options import MODES
from hushdoc_training.recipes.hashed import table_attacks

PUZZLES = 40
"""Terms that attacks guess here; what they find is tested where tables are."""


@pytest.fixture(autouse=True)
def _fewer_puzzles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_attacks, "PUZZLES", PUZZLES)


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the start of the names of release.key and release.trust.json."""
    folder = tmp_path_factory.mktemp("keys")
    assert main(["keygen", "--out", str(folder / "release")]) == 0
    return folder / "release"


def runs_of(name: str, folder: Path) -> Path:
    command = COMMANDS[name]
    data = command.data(folder)
    with pytest.MonkeyPatch.context() as patch:  # once for all tests, and before any of them
        patch.setattr(table_attacks, "PUZZLES", PUZZLES)
        for mode in MODES:
            assert command.train_mode(data, folder / mode, mode) == 0
    return folder


@pytest.fixture(scope="session")
def clauses_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `train clauses` in each mode."""
    return runs_of("clauses", tmp_path_factory.mktemp("clauses"))


@pytest.fixture(scope="session")
def classifier_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `train classifier` in each mode."""
    return runs_of("classifier", tmp_path_factory.mktemp("classifier"))
