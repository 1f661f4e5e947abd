"""PolicyReport: the result of every rule of a policy, failed or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hushdoc.errors import PolicyViolationError

_SHOWN = 16
"""Texts of a rule's result that are written out."""


def words(values: Iterable[str]) -> str:
    """Returns different texts in order, for what was found and what is allowed."""
    different = sorted(set(values))
    more = [f"and {len(different) - _SHOWN} more"] if len(different) > _SHOWN else []
    return ", ".join([*different[:_SHOWN], *more]) or "none"


@dataclass(frozen=True, kw_only=True)
class RuleResult:
    """The result of one rule.

    Attributes:
        rule: Name of the rule.
        code: The stable code it fails with.
        found: What the certificate declares.
        allowed: What the policy accepts.
        passed: Whether that fits.
    """

    rule: str
    code: str
    found: str
    allowed: str
    passed: bool


@dataclass(frozen=True, kw_only=True)
class PolicyReport:
    """The result of every rule, failed or not."""

    rules: tuple[RuleResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no rule failed."""
        return bool(self.rules) and all(rule.passed for rule in self.rules)

    @property
    def failed(self) -> tuple[RuleResult, ...]:
        """The rules that failed."""
        return tuple(rule for rule in self.rules if not rule.passed)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        rules = [dataclasses.asdict(rule) for rule in self.rules]
        return {"passed": self.passed, "rules": rules}

    def require_passed(self) -> None:
        """Raises PolicyViolationError, which lists every rule that failed, unless all passed."""
        if self.passed:
            return
        listed = "; ".join(
            f"{rule.code}: found {rule.found}, allowed {rule.allowed}" for rule in self.failed
        )
        count = f"{len(self.failed)} rule{'s' * (len(self.failed) != 1)}"
        raise PolicyViolationError(
            f"The policy refuses this model ({count} failed). {listed}. Use a model that satisfies "
            "it, or ask whoever is responsible for the policy to change it.",
            report=self,
            code=self.failed[0].code if self.failed else None,
        )
