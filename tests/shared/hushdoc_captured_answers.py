"""What the tests of captured answers share: their values, and words and lines of a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page
from hushdoc.reading.opening import open_document


def load(path: Path) -> Any:
    """Returns what a JSON file holds."""
    return json.loads(path.read_text())


def opened(data: Any) -> Document:
    """Returns the document in a value, recognised from its JSON."""
    return open_document(json.dumps(data).encode())


def texts(page: Page) -> list[str]:
    """Returns the words of a page."""
    return [word.text for word in page.words]


def lines(page: Page) -> list[str]:
    """Returns the words of each segment, in the order of the segments' numbers."""
    found: dict[int | None, list[str]] = {}
    for word in page.words:
        found.setdefault(word.segment, []).append(word.text)
    return [" ".join(found[number]) for number in sorted(found, key=lambda key: (key is None, key))]


def near(box: Box, corners: tuple[float, ...], *, by: float = 0.01) -> bool:
    """Returns whether a box has these corners."""
    return all(abs(a - b) <= by for a, b in zip(box.to_list(), corners, strict=True))
