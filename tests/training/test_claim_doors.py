"""A claim of differential privacy has one door, and so has a receipt."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "training").rglob("*.py"), *(ROOT / "export").rglob("*.py")]


@cache
def every_node() -> list[tuple[str, ast.AST]]:
    """Returns the calls and arguments of training and export, each with its module."""
    return [
        (str(path.relative_to(ROOT)).removesuffix(".py").replace("/", ".").partition(".")[2], node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.keyword)
    ]


def nodes(kind: Callable[[ast.AST], bool]) -> set[str]:
    """Returns the modules in which a node is of a kind."""
    return {module for module, node in every_node() if kind(node)}


def calls(*names: str) -> Callable[[ast.AST], bool]:
    """Returns whether a node is a call of a function or method of one of these names."""

    def kind(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        called = node.func
        found = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return found in names

    return kind


def says_dp(node: ast.AST) -> bool:
    """Returns whether a node is an argument kind="dp"."""
    if not (isinstance(node, ast.keyword) and node.arg == "kind"):
        return False
    return isinstance(node.value, ast.Constant) and node.value.value in ("dp", "dp-conditional")


RECEIPTS = "hushdoc_training.runs.receipts"
FEDERATED = "hushdoc_training.federated.claims"
SIMULATION = "hushdoc_training.recipes.federated_parties"
"""What it makes of a claim holds on a condition, so it is less."""

CONTINUED = "hushdoc_training.runs.continued"


@pytest.mark.parametrize(
    ("kind", "doors"),
    [
        (calls("differential_privacy"), {RECEIPTS, FEDERATED}),
        (calls("conditional"), {SIMULATION}),
        (calls("Guarantee"), set()),
        (says_dp, set()),
        (calls("of_meter"), {"hushdoc_training.metering"}),
        (calls("Receipt"), {"hushdoc_training.receipt"}),
    ],
    ids=["factory", "weakened", "guarantee", "kind", "meter", "receipt"],
)
def test_nobody_else_makes_one(kind: Callable[[ast.AST], bool], doors: set[str]) -> None:
    assert nodes(kind) == doors


def test_epsilon_is_never_replaced_but_by_what_two_claims_add_up_to() -> None:
    def replaces(node: ast.AST) -> bool:
        named = calls("replace")(node) and isinstance(node, ast.Call)
        return named and any(keyword.arg in ("epsilon", "kind") for keyword in _keywords(node))

    found = nodes(replaces)
    # A filled table that went on from one without a guarantee is replaced by kind "none".
    assert found <= {CONTINUED, "hushdoc_training.recipes.hashed.updates"}


def _keywords(node: ast.AST) -> Iterator[ast.keyword]:
    if isinstance(node, ast.Call):
        yield from node.keywords
