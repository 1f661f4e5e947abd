"""What the readers' tests share: the writer of PDF files, and the fixtures' folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).with_name("fixtures")


@pytest.fixture(scope="session")
def pdfs() -> ModuleType:
    """Returns pdf_files.py; tests are no package that could be imported from."""
    name = "hushdoc_pdf_files"
    if name not in sys.modules:
        path = Path(__file__).with_name("pdf_files.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Returns the folder of sample outputs."""
    return FOLDER
