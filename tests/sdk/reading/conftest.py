"""What the readers' tests share: the folders of sample outputs, and that none asks a network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Not binding: urllib3, which RapidOCR imports, tests for IPv6 by that.
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.sendto")
asked: list[str] = []
FOLDER = Path(__file__).with_name("fixtures")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Returns the folder of sample outputs."""
    return FOLDER


@pytest.fixture(scope="session")
def captured() -> Path:
    """Returns the folder of answers that services gave."""
    return FOLDER / "captured"


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in NETWORK:
        asked.append(f"{event}{arguments[1:]}")


sys.addaudithook(note)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """Fails a test in which a reader or an OCR engine asked for a connection or a host's name."""
    asked.clear()
    yield
    assert not asked
