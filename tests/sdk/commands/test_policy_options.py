"""The options of a policy: one policy or a usage error, and nothing weaker than a file says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest

from hushdoc.certificate.recompute import RECOMPUTE_MODES
from hushdoc.commands.parsing import CommandParser
from hushdoc.commands.policy_options import VARIABLE, policy_from, policy_options, user_policy_file
from hushdoc.errors import ArtifactError, CertificateError, InputError
from hushdoc.policy.policy import Policy

LIMITS = "--max-epsilon 8 --max-delta 1e-5 --unit document"


def parser() -> CommandParser:
    found = CommandParser(prog="hushdoc open")
    policy_options(found)
    found.set_defaults(artifact=Path("model"))
    return found


def parse(line: str) -> Policy:
    return policy_from(parser().parse_args(line.split()))


@pytest.fixture(autouse=True)
def here(key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    Path("model").mkdir()
    Path("trust.json").write_bytes(build.trust(key).to_json())
    Path("policy.toml").write_text(
        'trust = "trust.json"\nmax_epsilon = 8\nmax_delta = 1e-5\nprivacy_units = ["document"]\n'
        'recompute = "exact"\n'
    )


def test_limits_alone_mean_the_defaults_of_a_policy(key: Any) -> None:
    assert parse(f"--trust trust.json {LIMITS}") == build.policy(key)


def test_every_further_limit_is_handed_on(key: Any) -> None:
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


def test_integrity_only_takes_a_model() -> None:
    found = parse("--trust trust.json --integrity-only --model m")
    assert (found.privacy_required, found.model) == (False, "m")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LIMITS, "--max-epsilon, --max-delta, --unit needs --trust FILE"),
        ("--integrity-only", "--integrity-only needs --trust FILE"),
        ("--policy policy.toml --trust trust.json", "exclude each other"),
        ("--policy policy.toml --min-version 2", "--min-version can't be combined with --policy"),
        ("--policy policy.toml --revocations x", "--revocations can't be combined with --policy"),
        ("--policy policy.toml --integrity-only", "--integrity-only can't be combined with"),
        ("--policy policy.toml --recompute fast", "less than the policy's exact"),
        ("--trust trust.json", "--trust needs --max-epsilon"),
        ("--trust trust.json --max-epsilon 8 --unit document", "--trust needs --max-epsilon"),
        (
            "--trust trust.json --integrity-only --max-age-days 3",
            "--max-age-days can't be combined",
        ),
        ("--trust trust.json --integrity-only --recompute exact", "--recompute can't be combined"),
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


def configure(max_epsilon: int) -> Path:
    """Writes the policy of the user's configuration folder."""
    path = user_policy_file()
    path.parent.mkdir(parents=True)
    trust = Path("trust.json").resolve()
    path.write_text(
        f'trust = "{trust}"\nmax_epsilon = {max_epsilon}\nmax_delta = 1e-5\n'
        'privacy_units = ["document"]\n'
    )
    return path


def test_a_policy_is_found_in_the_environment_before_the_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configured = configure(max_epsilon=3)
    assert parse("").max_epsilon == 3
    assert str(configured) in capsys.readouterr().err
    assert parse("--recompute exact").recompute == "exact"
    monkeypatch.setenv(VARIABLE, str(Path("policy.toml").resolve()))
    capsys.readouterr()
    assert parse("").max_epsilon == 8
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"hushdoc: policy {Path('policy.toml').resolve()} ({VARIABLE})\n"


def test_what_the_options_name_is_never_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(max_epsilon=3)
    monkeypatch.setenv(VARIABLE, str(Path("gone.toml").resolve()))
    assert parse("--policy policy.toml").max_epsilon == 8
    assert parse(f"--trust trust.json {LIMITS}").max_epsilon == 8
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="gone.toml"):  # and no other is taken in its place
        parse("")


def test_no_policy_is_taken_from_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CertificateError, match="No policy was given") as raised:
        parse("")
    assert raised.value.code == "NO_POLICY"
    monkeypatch.setenv(VARIABLE, "policy.toml")
    with pytest.raises(InputError, match="expected an absolute path") as refused:
        parse("")
    assert refused.value.code == "BAD_POLICY"
    monkeypatch.delenv(VARIABLE)
    Path("hushdoc").mkdir()
    Path("policy.toml").rename("hushdoc/policy.toml")
    for name in ("XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, ".")
        with pytest.raises(CertificateError):
            parse("")


def test_what_is_read_again_is_told_once(
    key: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server reads its policy every minute, and its log is lines about requests."""
    monkeypatch.setenv(VARIABLE, str(Path("policy.toml").resolve()))
    seen = dataclasses.replace(build.trust(key), min_revocation_sequence=4)
    Path("trust.json").write_bytes(seen.to_json())
    for line in ("", f"--trust trust.json {LIMITS}"):
        options = parser().parse_args(line.split())
        first = policy_from(options)
        assert "note: the trust store has seen" in capsys.readouterr().err
        assert policy_from(options, again=True) == first
        assert capsys.readouterr().err == ""


def test_a_store_that_has_seen_a_list_which_no_policy_names_is_told(
    key: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = ("--policy policy.toml", f"--trust trust.json {LIMITS}")
    for way in ways:
        parse(way)
    assert capsys.readouterr().err == ""
    seen = dataclasses.replace(build.trust(key), min_revocation_sequence=4)
    Path("trust.json").write_bytes(seen.to_json())
    for way in ways:
        parse(way)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("hushdoc: note: the trust store has seen revocation list 4, and")
    parse(f"{ways[1]} --revocations list.jsonl")
    with Path("policy.toml").open("a") as policy:
        policy.write('revocations = "list.jsonl"\n')
    Path("list.jsonl").touch()
    parse(ways[0])
    assert capsys.readouterr().err == ""


def test_a_list_that_a_policy_names_and_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its path may be mistyped, and then nothing that was revoked is ever refused."""
    sound = Path("policy.toml").read_text()
    Path("policy.toml").write_text(f'{sound}revocations = "lists.jsonl"\n')
    parse("--policy policy.toml")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hushdoc: note: the policy names the revocation list lists.jsonl, which")
    Path("policy.toml").write_text(f'{sound}revocations = "lists.jsonl"\nrevocation = "required"\n')
    parse("--policy policy.toml")  # opening an artifact refuses it
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["gone", "trust.json"])
def test_what_is_no_folder_is_no_artifact_rather_than_one_without_a_policy(name: str) -> None:
    options = parser().parse_args([])
    options.artifact = Path(name)
    with pytest.raises(ArtifactError, match=f"'{name}' can't be opened.*check the path") as raised:
        policy_from(options)
    assert raised.value.code == "BAD_ARTIFACT"


@pytest.mark.parametrize(
    ("system", "variable", "inside"),
    [
        ("linux", "HOME", ".config/hushdoc/policy.toml"),
        ("linux", "XDG_CONFIG_HOME", "hushdoc/policy.toml"),
        ("darwin", "HOME", "Library/Application Support/hushdoc/policy.toml"),
        ("win32", "APPDATA", "hushdoc/policy.toml"),
    ],
)
def test_each_system_has_its_own_configuration_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, variable: str, inside: str
) -> None:
    monkeypatch.setattr("hushdoc.commands.policy_options.sys.platform", system)
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    assert user_policy_file() == tmp_path / "own" / inside
