"""What all tests share."""

from __future__ import annotations

import shutil

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests of programs that pip can't install, where they are not there."""
    if shutil.which("tesseract") is None:
        missing = pytest.mark.skip(reason="needs the program tesseract (apt-get: tesseract-ocr)")
        for item in items:
            if item.get_closest_marker("tesseract") is not None:
                item.add_marker(missing)
