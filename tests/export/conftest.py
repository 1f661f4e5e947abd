"""The tiny models and artifacts of these tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """Returns the module `tiny` beside this file, the same for all folders of tests."""
    if "hushdoc_tiny" not in sys.modules:
        path = Path(__file__).with_name("tiny.py")
        spec = importlib.util.spec_from_file_location("hushdoc_tiny", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["hushdoc_tiny"] = module
    return sys.modules["hushdoc_tiny"]
