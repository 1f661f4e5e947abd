"""What the tests about the papers share: the example certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hushdoc import artifact
from hushdoc.claim import Claim

EXAMPLES = Path(__file__).parents[2] / "samples" / "certificates"


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Claim]:
    """Returns the reader of an example's claim."""
    return lambda name: artifact.read_unverified(EXAMPLES / name).certificate.claim
