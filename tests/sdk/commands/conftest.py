"""What tests of subcommands share: a sealed artifact, and a store that trusts its key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def sealed(build: ModuleType, key: Any, tmp_path: Path) -> Path:
    return build.seal(tmp_path / "a", key)


@pytest.fixture
def trust(build: ModuleType, key: Any, tmp_path: Path) -> Path:
    path = tmp_path / "trust.json"
    path.write_bytes(build.trust(key).to_json())
    return path


@pytest.fixture
def patient_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets certificates be valid whatever the day on which these tests run."""
    monkeypatch.setattr("hushdoc.certificate.certificate.CLOCK_TOLERANCE", timedelta(days=36_500))
