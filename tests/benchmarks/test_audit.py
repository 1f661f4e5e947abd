"""Deliberate bugs: their patches apply, their checks exist, and the page names each of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


mutants = load("mutants")
audit = load("audit")
MUTANTS = mutants.mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_patch_applies_and_still_compiles(mutant: Any) -> None:
    for hunk in mutant.hunks:
        changed = hunk.changed(ROOT)
        assert changed != (ROOT / hunk.path).read_text("utf-8")
        compile(changed, hunk.path, "exec")


@pytest.mark.parametrize("check", sorted({mutant.check for mutant in MUTANTS}))
def test_every_check_is_there(check: str) -> None:
    if check not in audit.COMMANDS:
        path, _, name = check.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text("utf-8")


def test_the_page_has_every_bug() -> None:
    assert mutants.PAGE.read_text("utf-8") == mutants.page(), "run python benchmarks/mutants.py"


def test_a_patch_that_no_longer_applies_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    code, patch = tmp_path / "code.py", tmp_path / "bug.patch"
    code.write_text("one = 1\ntwo = 2\n")
    head = "Bug: b\nBreaks: c\nCheck: d\n--- a/code.py\n+++ b/code.py\n"
    patch.write_text(
        f"{head}@@ -1 +1 @@\n-one = 1\n+one = 3\n@@ -9 +9 @@\n-three = 3\n+three = 4\n"
    )
    with (
        pytest.raises(mutants.PatchError, match="bug does not apply.*stands 0 times in code.py"),
        mutants.read(patch).applied(tmp_path),
    ):
        pass
    assert code.read_text() == "one = 1\ntwo = 2\n"
    patch.write_text(f"{head}@@ -1 +1 @@\n-one = 1\n+one = 3\n")
    with mutants.read(patch).applied(tmp_path):
        assert code.read_text() == "one = 3\ntwo = 2\n"
    assert code.read_text() == "one = 1\ntwo = 2\n"


def test_there_are_as_many_bugs_as_the_page_promises() -> None:
    assert len(MUTANTS) >= 30


@pytest.mark.slow
def test_a_quick_audit_catches_its_bugs(run: Any) -> None:
    result, printed = run("audit", "--quick")
    assert result["survivors"] == []
    assert result["mutants"] == result["caught"] == len(audit.QUICK)
    assert "caught    clipping-is-off" in printed
