"""The generator's word lists: UTF-8 TOML files in words/, each read once, when first asked for.

Contract: lists keep their order and their repetitions, because documents draw from them by place.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def word_list(name: str) -> tuple[str, ...]:
    """Returns a list by its file and key.

    Example:
        >>> word_list("people.titles")[:2]
        ('Mr.', 'Mrs.')
    """
    return tuple(_value(name))


@cache
def word_lists(name: str) -> dict[str, tuple[str, ...]]:
    """Returns the lists of one table, or of a whole file."""
    return {key: tuple(values) for key, values in _value(name).items()}


def _value(name: str) -> Any:
    file, _, key = name.partition(".")
    return _file(file)[key] if key else _file(file)


@cache
def _file(name: str) -> dict[str, Any]:
    folder = resources.files("hushdoc_training.invented").joinpath("words")
    return tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
