"""What the tests about the papers share: the computed figures and the example certificates."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hushdoc.artifact import artifact
from hushdoc.certificate.claim import Claim

EXAMPLES = Path(__file__).parents[2] / "samples" / "certificates"


@pytest.fixture(scope="session")
def figures() -> ModuleType:
    """Returns figures.py; tests are no package that could be imported from."""
    name = "hushdoc_paper_figures"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("figures.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Claim]:
    """Returns the reader of an example's claim."""
    return lambda name: artifact.read_unverified(EXAMPLES / name).certificate.claim
