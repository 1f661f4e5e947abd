"""What the audits of private recipes find, by the benchmark that the docs quote."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_the_quick_run_refutes_what_has_too_little_noise(run: Any) -> None:
    result, printed = run("recipe_audits", "--quick")
    assert result["goals_met"] is True
    clauses = result["recipes"]["clauses"]
    assert clauses["no noise"]["epsilon_lower"] == clauses["no noise"]["ceiling"] > 3
    assert {found["guesses"] for found in clauses.values()} == {250}
    assert printed.count("clauses, ") == len(clauses) == 3
