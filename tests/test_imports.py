"""No module imports another by its name in a string, where import-linter can't see it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("sdk/hushdoc", "training/hushdoc_training", "export/hushdoc_export")
LAZY_FACES = {"sdk/hushdoc/__init__.py"}
"""What imports public names when they are first asked for (PEP 562)."""

IMPORTERS = {"__import__", "import_module", "load_module", "resolve_name", "run_module"}


def hidden_imports(source: str) -> list[int]:
    """Returns the lines that import something of ours, or something unknown, by a string."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        first = node.args[0]
        foreign = isinstance(first, ast.Constant) and not str(first.value).startswith("hushdoc")
        if name in IMPORTERS and not foreign:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("source", SOURCES)
def test_own_modules_are_imported_by_statements_alone(source: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / source).rglob("*.py"))
        for line in hidden_imports(path.read_text("utf-8"))
        if str(path.relative_to(ROOT)) not in LAZY_FACES
    }
    assert found == set()


def test_a_hidden_import_is_seen() -> None:
    seen = hidden_imports('import_module("hushdoc.reading")\nimportlib.import_module(name)\n')
    assert seen == [1, 2]
    assert hidden_imports('import_module("msvcrt")\n') == []
    assert len(hidden_imports((ROOT / "sdk/hushdoc/__init__.py").read_text("utf-8"))) == 1
