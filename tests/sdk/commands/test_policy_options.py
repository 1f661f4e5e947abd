"""The options of a policy: one policy or a usage error, and nothing weaker than a file says."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.certificate.recompute import RECOMPUTE_MODES
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.policy.policy import Policy

LIMITS = "--max-epsilon 8 --max-delta 1e-5 --unit document"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    policy_options(found)
    return found


def parse(line: str) -> Policy:
    return policy_from(parser().parse_args(line.split()))


@pytest.fixture(autouse=True)
def here(build: ModuleType, key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trust.json").write_bytes(build.trust(key).to_json())
    Path("policy.toml").write_text(
        'trust = "trust.json"\nmax_epsilon = 8\nmax_delta = 1e-5\nprivacy_units = ["document"]\n'
        'recompute = "exact"\n'
    )


def test_limits_alone_mean_the_defaults_of_a_policy(build: ModuleType, key: Any) -> None:
    assert parse(f"--trust trust.json {LIMITS}") == build.policy(key)


def test_every_further_limit_is_handed_on(build: ModuleType, key: Any) -> None:
    found = parse(
        f"--trust trust.json {LIMITS} --unit page --adversary server --model m --min-version 2 "
        "--adjacency zero-out --adjacency add-remove --max-age-days 30 "
        "--revocations list.jsonl --recompute offline"
    )
    assert found == build.policy(
        key,
        privacy_units={"document", "page"},
        adversary="server",
        adjacency={"zero-out", "add-remove"},
        model="m",
        min_version=2,
        max_age_days=30.0,
        revocation="required",
        revocations=Path("list.jsonl"),
        recompute="offline",
    )


def test_the_ways_of_recomputing_are_those_there_are() -> None:
    (option,) = [item for item in parser()._actions if item.dest == "recompute"]
    assert option.choices == RECOMPUTE_MODES


@pytest.mark.parametrize("way", ["exact", "offline"])
def test_a_policy_file_can_be_recomputed_more_strictly(way: str) -> None:
    assert parse(f"--policy policy.toml --recompute {way}").recompute == way
    assert parse("--policy policy.toml").recompute == "exact"


def test_integrity_only_takes_a_model(build: ModuleType, key: Any) -> None:
    found = parse("--trust trust.json --integrity-only --model m")
    assert (found.privacy_required, found.model) == (False, "m")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "either --policy FILE or --trust FILE"),
        (LIMITS, "either --policy FILE or --trust FILE"),
        ("--policy policy.toml --trust trust.json", "either --policy FILE or --trust FILE"),
        ("--policy policy.toml --min-version 2", "--min-version stands beside --policy"),
        ("--policy policy.toml --revocations x", "--revocations stands beside --policy"),
        ("--policy policy.toml --integrity-only", "--integrity-only stands beside --policy"),
        ("--policy policy.toml --recompute fast", "less than the policy's exact"),
        ("--trust trust.json", "--trust needs --max-epsilon"),
        ("--trust trust.json --max-epsilon 8 --unit document", "--trust needs --max-epsilon"),
        ("--trust trust.json --integrity-only --max-age-days 3", "--max-age-days stands beside"),
        ("--trust trust.json --integrity-only --recompute exact", "--recompute stands beside"),
        (f"--trust trust.json {LIMITS} --max-age-days 0", "max_age_days is 0.0"),
        (f"--trust trust.json {LIMITS} --min-version -1", "min_version is -1"),
        (f"--trust trust.json {LIMITS} --adversary nobody", "adversary is 'nobody'"),
        (f"--trust trust.json {LIMITS} --adjacency near", "'near'"),
    ],
)
def test_what_is_not_one_policy_is_wrong_usage(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(line)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
