"""What the readers' tests share: the writer of PDF files, and the fixtures' folder."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import hushdoc_pdf_files
import pytest

FOLDER = Path(__file__).with_name("fixtures")


@pytest.fixture(scope="session")
def pdfs() -> ModuleType:
    """Returns the writer of PDF files."""
    return hushdoc_pdf_files


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Returns the folder of sample outputs."""
    return FOLDER


@pytest.fixture(scope="session")
def captured() -> Path:
    """Returns the folder of answers that services gave."""
    return FOLDER / "captured"
