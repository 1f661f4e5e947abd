"""The subcommand `bench`, run over a real artifact."""

from __future__ import annotations

import json
from pathlib import Path

import hushdoc_command_runs
import hushdoc_tiny as tiny
import pytest

from hushdoc.errors import PolicyViolationError


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)


def run(policy: Path, *arguments: str) -> int:
    return hushdoc_command_runs.run("bench", tiny.sealed(), "--policy", policy, *arguments)


def test_it_times_checks_loading_and_documents(
    policy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(policy, "--words", "300", "--words", "5", "--threads", "1", "--json") == 0
    told = json.loads(capfd.readouterr().out)
    assert told["threads"] == 1
    assert told["checkSeconds"] > 0
    assert told["loadSeconds"] > 0
    short, long = told["documents"]
    assert (short["words"], long["words"]) == (5, 300)
    assert 0 < short["cpu_seconds"] < long["cpu_seconds"]
    assert 0 < short["seconds"] < long["seconds"]


def test_people_get_a_line_for_each_length(policy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(policy, "--words", "5") == 0
    printed, warned = capfd.readouterr()
    assert warned == ""
    assert printed.splitlines()[-1].startswith("     5 words: ")


def test_what_the_policy_refuses_is_not_timed(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("max_epsilon = 8", "max_epsilon = 0.1"))
    with pytest.raises(PolicyViolationError):
        run(policy)


@pytest.mark.parametrize("arguments", [("--words", "0"), ("--threads", "0")])
def test_wrong_usage(policy: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(policy, *arguments)
