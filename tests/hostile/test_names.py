"""How many attacks there are, counted in the tables that the tests run."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

from hushdoc_corruption import Case

import hushdoc

HERE = Path(__file__).parent
SOURCE = Path(hushdoc.__file__).parent

# Every group of hostile inputs that the design names, and two of its surroundings.
GROUPS = {
    "files",
    "certificate",
    "signature",
    "json",
    "semantics",
    "paths",
    "formats",
    "races",
    "environment",
    "policy",
}


def _cases() -> list[Case]:
    """Returns the cases of every module here that has a table of them."""
    found: list[Case] = []
    for path in sorted(HERE.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"counted_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look their annotations up
        spec.loader.exec_module(module)
        found += getattr(module, "CASES", ())
    return found


def test_there_are_many_attacks_and_each_has_its_own_name() -> None:
    cases = _cases()
    names = Counter(case.name for case in cases)
    assert [name for name, number in names.items() if number > 1] == []
    assert len(names) >= 160
    groups = Counter(name.partition("/")[0] for name in names)
    assert set(groups) == GROUPS
    assert min(groups.values()) >= 20


UNMET = {
    # Of those who sign, not of those who read.
    "ALREADY_SIGNED",
    "BAD_KEY",
    "KEY_ENCRYPTED",
    "KEY_EXPOSED",
    "BAD_SIGNATURE",
    # Of other systems than Linux.
    "LOW_MEMORY_UNAVAILABLE",
    # Of a model hub, before there is a folder; and a variable of its library.
    "HUB_FAILED",
    "HUB_NAME",
    "HF_HUB_DISABLE_TELEMETRY",
}
READERS = sorted(
    path
    for room in ("artifact", "certificate", "policy", "serialization", "signing")
    for path in (SOURCE / room).glob("*.py")
)
"""All that reads what somebody else may have written."""


def test_every_code_of_refusal_is_met() -> None:
    """The codes are read from the source, so that a new one is asked for here."""
    stated = {
        code
        for path in READERS
        for code in re.findall(
            '"([A-Z]+(?:_[A-Z]+)+|REVOKED|ROLLBACK|EXPIRED|STALE|SYMLINK)"',
            path.read_text("utf-8"),
        )
    }
    assert len(stated) > 50
    met = {code for case in _cases() for code in (case.code, *case.failed)}
    assert stated - met == UNMET
