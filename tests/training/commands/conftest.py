"""What tests of training's subcommands share."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from table_commands import COMMANDS

from hushdoc.__main__ import main
from hushdoc.accounting import calibration
from hushdoc_training.audit import provider_membership, two_sample
from hushdoc_training.commands.table_options import MODES
from hushdoc_training.recipes.hashed import private_audits, public_texts, table_attacks

_public_text = functools.cache(public_texts.without_any)
"""Invented contracts that scale rows, read once for all tables of a scheme."""


@contextmanager
def quicker() -> Iterator[None]:
    """Attacks and audits are of fewer terms and trees, and noise is sought with less care.

    What they find is tested beside them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_attacks, "PUZZLES", 40)
        patch.setattr(table_attacks, "CANDIDATES", 25)
        patch.setattr(two_sample, "TREES", 5)
        patch.setattr(provider_membership, "_TREES", (5, 20))
        patch.setattr(private_audits, "CANARIES", 200)
        patch.setattr(calibration, "RELATIVE_TOLERANCE", 1e-3)
        patch.setattr(public_texts, "without_any", _public_text)
        yield


@pytest.fixture(autouse=True)
def _quicker() -> Iterator[None]:
    with quicker():
        yield


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the start of the names of release.key and release.trust.json."""
    folder = tmp_path_factory.mktemp("keys")
    assert main(["keygen", "--out", str(folder / "release")]) == 0
    return folder / "release"


def runs_of(name: str, folder: Path) -> Path:
    command = COMMANDS[name]
    data = command.data(folder)
    with quicker():  # once for all tests, and before any of them
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
