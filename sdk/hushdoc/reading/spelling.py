"""Keys that a service spells in camelCase and its own Python package in snake_case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get(data: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a key in either spelling, or None.

    Args:
        data: What the service or its package wrote.
        name: The key in camelCase.

    Example:
        >>> get({"page_number": 2}, "pageNumber")
        2
    """
    if name in data:
        return data[name]
    return data.get(
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    )
