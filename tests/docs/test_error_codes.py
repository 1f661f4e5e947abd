"""docs/error-codes.md and the source name the same codes, with the same exit codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hushdoc import errors
from hushdoc.errors import HushdocError, PolicyViolationError

ROOT = Path(__file__).parents[2]
SOURCES = ("sdk/hushdoc", "training/hushdoc_training", "export/hushdoc_export")
ROW = re.compile(r"\| `([A-Z0-9_]+)` \| ([0-9](?: or [0-9])?) \| (.+) \| (.+) \|")
SPELLED = re.compile(r"(?!(O|AF|SOCK)_)[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
"""As codes are, and the system's own names are not."""

NOT_CODES = {"HUSHDOC_POLICY", "ORT_DISABLE_TELEMETRY", "XDG_CONFIG_HOME"}
"""Texts that are spelled like a code."""


@cache
def documented() -> dict[str, set[int]]:
    """Returns each documented code with its exit codes."""
    rows = [
        match
        for line in (ROOT / "docs/error-codes.md").read_text("utf-8").splitlines()
        if line.startswith("| `") and (match := ROW.fullmatch(line))
    ]
    codes = [match[1] for match in rows]
    assert len(codes) == len(set(codes)), "a code stands twice"
    return {match[1]: {int(exit_code) for exit_code in match[2].split(" or ")} for match in rows}


@cache
def trees() -> list[ast.Module]:
    return [
        ast.parse(path.read_text("utf-8"))
        for source in SOURCES
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


def raised() -> Iterator[tuple[str, str]]:
    """Yields (code, name of the class or function it is handed to) of every explicit code."""
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                for keyword in node.keywords:
                    if keyword.arg == "code":
                        yield from ((text, name) for text in texts(keyword.value))


def defaults() -> dict[str, type[HushdocError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return {
        found.default_code: found
        for found in classes
        if issubclass(found, HushdocError) and "default_code" in vars(found)
    }


def in_source() -> set[str]:
    spelled = {text for tree in trees() for text in texts(tree) if SPELLED.fullmatch(text)}
    return (
        (spelled - NOT_CODES - exported_names()) | {code for code, _ in raised()} | set(defaults())
    )


def test_every_row_of_the_tables_is_read() -> None:
    rows = (ROOT / "docs/error-codes.md").read_text("utf-8").count("\n| `")
    assert rows == len(documented()) > 80


def test_every_code_is_documented() -> None:
    assert in_source() - documented().keys() == set()


def test_nothing_is_documented_that_is_not_there() -> None:
    assert documented().keys() - in_source() == set()


@pytest.mark.parametrize("code", sorted(defaults()))
def test_a_class_exits_as_documented(code: str) -> None:
    assert documented()[code] == {defaults()[code].exit_code}


def test_what_is_raised_exits_as_documented() -> None:
    classes = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, HushdocError)
    }
    made = {(code, name) for code, name in raised() if name in classes}
    assert len(made) > 50
    wrong = {
        (code, name)
        for code, name in made
        if classes[name].exit_code not in documented().get(code, set())
    }
    assert wrong == set()


def test_rules_of_a_policy_exit_as_documented() -> None:
    named = {code for code, name in raised() if name in ("RuleResult", "_Rule")}
    assert "AUDIT_CONTRADICTION" in named
    # The rule of a policy that demands no privacy has a code and never fails.
    for code in named - {"NO_POLICY"}:
        assert PolicyViolationError.exit_code in documented()[code]
