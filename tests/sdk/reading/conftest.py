"""What the readers' tests share: modules that are importable by name, and the fixtures' folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).with_name("fixtures")


def _named(name: str) -> ModuleType:
    """Returns a module that tests share; tests are no package that could be imported from."""
    full = f"hushdoc_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, FOLDER.with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


PDF_FILES = _named("pdf_files")
_named("captured_answers")


@pytest.fixture(scope="session")
def pdfs() -> ModuleType:
    """Returns the writer of PDF files."""
    return PDF_FILES


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Returns the folder of sample outputs."""
    return FOLDER


@pytest.fixture(scope="session")
def captured() -> Path:
    """Returns the folder of answers that services gave."""
    return FOLDER / "captured"
