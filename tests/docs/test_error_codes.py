"""docs/error-codes.md and the source name the same codes, with the same exit codes."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hushdoc_source_codes import ROOT, codes, defaults, raised

import hushdoc
from hushdoc import errors
from hushdoc.errors import HushdocError, PolicyViolationError

ROW = re.compile(r"\| `([A-Z0-9_]+)` \| ([0-9](?: or [0-9])?) \| (.+) \| (.+) \|")


@cache
def documented() -> dict[str, set[int]]:
    """Returns each documented code with its exit codes."""
    rows = [
        match
        for line in (ROOT / "docs/error-codes.md").read_text("utf-8").splitlines()
        if line.startswith("| `") and (match := ROW.fullmatch(line))
    ]
    assert len(rows) == len({match[1] for match in rows}), "a code stands twice"
    return {match[1]: {int(exit_code) for exit_code in match[2].split(" or ")} for match in rows}


def test_every_row_of_the_tables_is_read() -> None:
    rows = (ROOT / "docs/error-codes.md").read_text("utf-8").count("\n| `")
    assert rows == len(documented()) > 80


def test_every_code_is_documented() -> None:
    assert codes() - documented().keys() == set()


def test_nothing_is_documented_that_is_not_there() -> None:
    assert documented().keys() - codes() == set()


@pytest.mark.parametrize("code", sorted(defaults()))
def test_a_class_exits_as_documented(code: str) -> None:
    assert documented()[code] == {defaults()[code].exit_code}


def test_classes_stand_with_their_exit_codes() -> None:
    page = (ROOT / "docs/error-codes.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| (.*Error`.*?) \|$", page, flags=re.MULTILINE)
    named = {name: int(code) for code, row in rows for name in re.findall(r"`(\w+Error)`", row)}
    assert len(named) > 10
    assert named == {name: getattr(hushdoc, name).exit_code for name in named}


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
