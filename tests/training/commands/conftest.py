"""What tests of training's subcommands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushdoc.__main__ import main


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the start of the names of release.key and release.trust.json."""
    folder = tmp_path_factory.mktemp("keys")
    assert main(["keygen", "--out", str(folder / "release")]) == 0
    return folder / "release"
