"""What tests of subcommands share: a sealed artifact, and a store that trusts its key."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_command_runs
import numpy as np
import pytest

from hushdoc import hashing
from hushdoc.commands import command_line
from hushdoc.hashing import FeatureScheme
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training.table_checkpoint import TableCheckpoint

Run = Callable[[argparse.Namespace], int]
SCHEME = FeatureScheme(rows=30_011, level="sentence", seed=9, bigrams=False, skip_grams=False)


@pytest.fixture
def sealed(key: Any, tmp_path: Path) -> Path:
    return build.seal(tmp_path / "a", key)


@pytest.fixture
def trust(key: Any, tmp_path: Path) -> Path:
    path = tmp_path / "trust.json"
    path.write_bytes(build.trust(key).to_json())
    return path


@pytest.fixture
def seal_model(key: Any) -> Callable[[Path], None]:
    """Returns what seals a model that knows the word "laws"."""
    weights = np.full((SCHEME.rows, 2), 1e-4, dtype=np.float32)
    weights[:, 0] += 2e-4
    weights[hashing.features([["laws"]], SCHEME).indices, 1] = 8.0
    table = TableCheckpoint(
        weights=weights,
        transitions=np.zeros((2, 2)),
        tags=("O", "governing-law"),
        scheme=SCHEME,
        claim=build.claim(),
    )
    release = Release(key=key, name="contracts", issuer="the tests")

    def seal(folder: Path) -> None:
        seal_table(folder, table, release)

    return seal


@pytest.fixture
def place(
    tmp_path: Path,
    key: Any,
    seal_model: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A folder with a model that knows the word "laws", and a policy, as the working directory."""
    seal_model(tmp_path / "model")
    hushdoc_command_runs.write_policy(tmp_path, build.trust(key))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def subcommand(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], int]:
    """Returns what runs a subcommand of the test's own through the program's `main`."""

    def main(run: Run) -> int:
        parser = argparse.ArgumentParser()
        parser.set_defaults(run=run, subcommand="look")
        monkeypatch.setattr(command_line, "build_parser", lambda: parser)
        return command_line.main([])

    return main


@pytest.fixture
def patient_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets certificates be valid whatever the day on which these tests run."""
    monkeypatch.setattr("hushdoc.certificate.certificate.CLOCK_TOLERANCE", timedelta(days=36_500))
