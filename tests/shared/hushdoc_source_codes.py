"""The error codes that stand in the source, read from its syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hushdoc import errors
from hushdoc.errors import HushdocError

ROOT = Path(__file__).parents[2]
SOURCES = ("sdk/hushdoc", "training/hushdoc_training", "export/hushdoc_export")
SPELLED = re.compile(r"(?!(O|AF|SOCK)_)[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
"""As codes are, and the system's own names are not."""

NOT_CODES = {
    "EXPENSE_ROW",
    "FLWR_DISABLE_UPDATE_CHECK",
    "FLWR_HOME",
    "FLWR_TELEMETRY_ENABLED",
    "HF_HUB_DISABLE_TELEMETRY",
    "HUSHDOC_POLICY",
    "ORT_DISABLE_TELEMETRY",
    "XDG_CONFIG_HOME",
}
"""Texts that are spelled like a code."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What the files of one package say."""

    spelled: frozenset[str]
    """Texts that are spelled like a code."""

    exported: frozenset[str]
    """What stands in an `__all__`; constants are spelled like codes."""

    raised: frozenset[tuple[str, str]]
    """(code, name of the class or function it is handed to) of every explicit code."""


@cache
def read(source: str) -> Source:
    """Reads a package's syntax trees, once, and keeps none of them."""
    spelled, exported, raised = set[str](), set[str](), set[tuple[str, str]]()
    for path in sorted((ROOT / source).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                exported.update(texts(node.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str) and SPELLED.fullmatch(node.value):
                    spelled.add(node.value)
            elif isinstance(node, ast.Call):
                handed = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                for value in handed:
                    name = ast.unparse(node.func).rpartition(".")[2]
                    raised.update((text, name) for text in texts(value))
    return Source(
        spelled=frozenset(spelled), exported=frozenset(exported), raised=frozenset(raised)
    )


def texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def raised() -> set[tuple[str, str]]:
    """Returns (code, name of the class or function it is handed to) of every explicit code."""
    return {found for source in SOURCES for found in read(source).raised}


def defaults() -> dict[str, type[HushdocError]]:
    """Returns the classes of errors by the code that they have where none is given."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return {
        found.default_code: found
        for found in classes
        if issubclass(found, HushdocError) and "default_code" in vars(found)
    }


def codes(*sources: str) -> set[str]:
    """Returns every code that these packages, or else all, hand to an error or a rule."""
    found = [read(source) for source in sources or SOURCES]
    exported = {name for source in SOURCES for name in read(source).exported}
    spelled = {text for source in found for text in source.spelled}
    explicit = {code for source in found for code, _ in source.raised}
    return (spelled - NOT_CODES - exported) | explicit | set(defaults())
