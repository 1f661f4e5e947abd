"""What tests of artifacts share."""

from __future__ import annotations

import pytest

from hushdoc.artifact import directory_handle


@pytest.fixture(params=["descriptor", "path"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lets a test run on folders that are held by descriptor and, as on Windows, by path."""
    if request.param == "path":
        monkeypatch.setattr(directory_handle, "HAS_DESCRIPTORS", False)
    return str(request.param)
