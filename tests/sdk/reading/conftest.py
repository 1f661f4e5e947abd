"""What the readers' tests share: the folders of sample outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("fixtures")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Returns the folder of sample outputs."""
    return FOLDER


@pytest.fixture(scope="session")
def captured() -> Path:
    """Returns the folder of answers that services gave."""
    return FOLDER / "captured"
