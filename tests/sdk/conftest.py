"""What the SDK's tests share: the builders, and keys that are made once."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def build() -> ModuleType:
    """Returns builders.py; tests are no package that could be imported from."""
    name = "hushdoc_builders"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("builders.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def key(build: ModuleType) -> Any:
    return build.known_key(1)


@pytest.fixture(scope="session")
def other_key(build: ModuleType) -> Any:
    return build.known_key(2)
