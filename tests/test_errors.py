"""Every error and warning of ours survives pickle, copies and a pool of processes."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import hushdoc
import hushdoc_export
import hushdoc_training
from hushdoc.errors import HushdocError, MissingExtraError, PolicyViolationError
from hushdoc.policy.report import PolicyReport, RuleResult

PACKAGES = (hushdoc, hushdoc_training, hushdoc_export)
COPIES: dict[str, Callable[[Any], Any]] = {
    **{
        f"pickle {protocol}": lambda error, protocol=protocol: pickle.loads(
            pickle.dumps(error, protocol)
        )
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
RULE = RuleResult(
    rule="epsilon", code="EPSILON_TOO_LARGE", found="8", allowed="at most 1", passed=False
)
REPORT = PolicyReport(rules=(RULE,))
MISSING = """
from hushdoc.errors import needs_extra

with needs_extra("no_such_package", "pdf"):
    import no_such_package
"""


def found_classes() -> list[type[BaseException]]:
    """Returns every exception class that a module of ours defines."""
    found = set()
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            members = vars(importlib.import_module(module.name)).values()
            found |= {
                member
                for member in members
                if inspect.isclass(member)
                and issubclass(member, BaseException)
                and member.__module__ == module.name
            }
    return sorted(found, key=lambda cls: (cls.__module__, cls.__name__))


def raised(cls: type[BaseException]) -> BaseException:
    """Returns an error as the packages raise it; classes with arguments of their own come first."""
    if cls is MissingExtraError:
        return MissingExtraError("no_such_package", "pdf")
    if cls is PolicyViolationError:
        with pytest.raises(PolicyViolationError) as caught:
            REPORT.require_passed()
        return caught.value
    if issubclass(cls, HushdocError):
        return cls("Found 1, expected 2. Do this.", code="A_CODE")
    return cls("What was found.", "where it was")


def everything_of(error: BaseException) -> tuple[Any, ...]:
    stable = (getattr(error, "code", None), getattr(error, "exit_code", None))
    return type(error), str(error), error.args, vars(error), *stable


def test_all_classes_are_found() -> None:
    names = {cls.__name__ for cls in found_classes()}
    assert names >= {"HushdocError", "MissingExtraError", "MalformedError", "ReadingWarning"}
    assert {cls.__name__ for cls in descendants(HushdocError)} <= names


def descendants(cls: type) -> set[type]:
    return {cls}.union(*map(descendants, cls.__subclasses__()))


@pytest.mark.parametrize("way", COPIES)
def test_every_error_survives_being_copied(way: str) -> None:
    for cls in found_classes():
        error = raised(cls)
        error.add_note("A note of the caller's.")
        assert everything_of(COPIES[way](error)) == everything_of(error), cls


def test_errors_come_back_from_a_pool_of_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        refused = pool.apply_async(REPORT.require_passed)
        missing = pool.apply_async(exec, (MISSING,))
        with pytest.raises(PolicyViolationError) as caught:
            refused.get(timeout=120)
        with pytest.raises(MissingExtraError) as absent:
            missing.get(timeout=120)
    assert (caught.value.code, caught.value.exit_code) == ("EPSILON_TOO_LARGE", 5)
    assert caught.value.report == REPORT
    assert (absent.value.package, absent.value.extra) == ("no_such_package", "pdf")
    assert str(absent.value) == str(MissingExtraError("no_such_package", "pdf"))
