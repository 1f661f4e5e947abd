"""The error codes that stand in the source, read from its syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hushdoc import errors
from hushdoc.errors import HushdocError

ROOT = Path(__file__).parents[2]
SOURCES = ("sdk/hushdoc", "training/hushdoc_training", "export/hushdoc_export")
SPELLED = re.compile(r"(?!(O|AF|SOCK)_)[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
"""As codes are, and the system's own names are not."""

NOT_CODES = {
    "FLWR_DISABLE_UPDATE_CHECK",
    "FLWR_HOME",
    "FLWR_TELEMETRY_ENABLED",
    "HUSHDOC_POLICY",
    "ORT_DISABLE_TELEMETRY",
    "XDG_CONFIG_HOME",
}
"""Texts that are spelled like a code."""


@cache
def trees(sources: tuple[str, ...] = SOURCES) -> list[ast.Module]:
    return [
        ast.parse(path.read_text("utf-8"))
        for source in sources
        for path in sorted((ROOT / source).rglob("*.py"))
    ]


def texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def exported_names() -> set[str]:
    """Returns what stands in an `__all__`; constants are spelled like codes."""
    return {
        text
        for tree in trees()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for text in texts(node.value)
    }


@cache
def raised(sources: tuple[str, ...] = SOURCES) -> set[tuple[str, str]]:
    """Returns (code, name of the class or function it is handed to) of every explicit code."""
    return {
        (text, ast.unparse(node.func).rpartition(".")[2])
        for tree in trees(sources)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code"
        for text in texts(keyword.value)
    }


def defaults() -> dict[str, type[HushdocError]]:
    """Returns the classes of errors by the code that they have where none is given."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return {
        found.default_code: found
        for found in classes
        if issubclass(found, HushdocError) and "default_code" in vars(found)
    }


@cache
def codes(sources: tuple[str, ...] = SOURCES) -> set[str]:
    """Returns every code that these sources hand to an error or a rule."""
    spelled = {text for tree in trees(sources) for text in texts(tree) if SPELLED.fullmatch(text)}
    explicit = {code for code, _ in raised(sources)}
    return (spelled - NOT_CODES - exported_names()) | explicit | set(defaults())
