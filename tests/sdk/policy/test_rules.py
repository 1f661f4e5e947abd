"""Policies: all rules at once, and what they accept; `tests/hostile` breaks each rule alone."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed, Gaussian, WithoutReplacement
from hushdoc.errors import InputError, PolicyViolationError
from hushdoc.policy.policy import Policy
from hushdoc.policy.report import PolicyReport
from hushdoc.policy.rules import check


def failed(build: ModuleType, key: Any, *guarantees: Any, **change: Any) -> list[str]:
    limits = {field.name for field in dataclasses.fields(Policy)}
    of_policy = {name: value for name, value in change.items() if name in limits}
    rest = {name: value for name, value in change.items() if name not in limits}
    report = check(build.policy(key, **of_policy), build.certify(*guarantees, **rest))
    return [rule.code for rule in report.failed]


def test_a_number_that_is_recomputed_names_its_guarantee(build: ModuleType, key: Any) -> None:
    server = build.guarantee(adversary="server", aggregation="secure-sum")
    found = check(build.policy(key), build.certify(build.guarantee(), server)).rules
    assert [rule.rule for rule in found if rule.rule.startswith("recompute")] == [
        "recompute (document, model-recipient)",
        "recompute (document, server)",
    ]


def test_a_number_just_above_the_limit_is_shown_as_such(build: ModuleType, key: Any) -> None:
    report = check(build.policy(key), build.certify(build.guarantee(epsilon=8.0000001, profile=())))
    (rule,) = report.failed
    assert (rule.found, rule.allowed) == ("8.0000001", "at most 8")


def test_an_honest_certificate_passes_every_rule(build: ModuleType, key: Any) -> None:
    report = check(build.policy(key), build.certify())
    assert report.passed
    assert len(report.rules) == 22
    assert report.to_dict()["passed"] is True
    report.require_passed()


@pytest.mark.parametrize(
    ("sampled", "codes"),
    [
        ("fixed-size", []),
        ("poisson", ["SAMPLING_MISMATCH"]),
        ("shuffled", ["SAMPLING_MISMATCH"]),
    ],
)
def test_batches_of_a_fixed_size_are_accounted_as_such(
    build: ModuleType, key: Any, sampled: str, codes: list[str]
) -> None:
    event = WithoutReplacement(population=100, sample_size=10, event=Gaussian(noise_multiplier=4.0))
    transcript = Composed(event=event, count=5)
    epsilon = pld.epsilon(transcript, build.DELTA, adjacency="replace-one")
    guarantee = build.guarantee(
        adjacency="replace-one",
        epsilon=epsilon,
        profile=(),
        sampling_as_implemented=sampled,
    )
    found = failed(
        build, key, guarantee, transcripts={"training": transcript}, adjacency={"replace-one"}
    )
    assert found == codes


def test_every_failed_rule_is_listed_at_once(build: ModuleType, key: Any) -> None:
    worst = build.guarantee(
        kind="dp-conditional",
        condition="if secure",
        unit="sequence",
        adjacency="replace-one",
        epsilon=100.0,
        delta=0.1,
        profile=(),
        accountant=build.Accountant(name="gdp-clt", library="x", version="1", error_bound=None),
        covers_all_private_accesses=False,
        sampling_as_implemented="shuffled",
        hyperparameter_tuning="unaccounted",
        rng="unknown",
    )
    public = dataclasses.replace(build.claim().public_data[0], overlap_with_protected="unknown")
    access = build.DataAccess(
        data="invoices", purpose="early stopping", accounted_in=(), treatment="unaccounted"
    )
    certificate = build.certify(
        worst,
        public_data=(public,),
        data_accesses=(*build.claim().data_accesses, access),
        derivation=({"step": "quantize", "dataDependent": True},),
    )
    policy = build.policy(key, min_assurance="third-party")
    report = check(policy, certificate)
    assert [rule.code for rule in report.failed] == [
        "ASSURANCE_TOO_LOW",
        "UNIT_NOT_ACCEPTED",
        "UNIT_NOT_IN_DATA",
        "KIND_NOT_ALLOWED",
        "ADJACENCY_NOT_ACCEPTED",
        "ACCOUNTANT_NOT_ACCEPTED",
        "EPSILON_TOO_LARGE",
        "DELTA_TOO_LARGE",
        "UNACCOUNTED_ACCESS",
        "SAMPLING_MISMATCH",
        "TUNING_NOT_ACCEPTED",
        "RNG_NOT_ACCEPTED",
        "UNACCOUNTED_ACCESS",
        "UNACCOUNTED_ACCESS",
        "PUBLIC_DATA_OVERLAP",
        "EPSILON_NOT_REPRODUCED",
    ]
    with pytest.raises(PolicyViolationError, match="16 rules failed") as caught:
        report.require_passed()
    assert caught.value.report is report
    assert caught.value.code == "ASSURANCE_TOO_LOW"
    assert caught.value.exit_code == 5


def test_a_single_failure_is_one_rule(build: ModuleType, key: Any) -> None:
    with pytest.raises(PolicyViolationError, match=r"\(1 rule failed\)"):
        check(build.policy(key), build.certify(build.guarantee(rng="seeded"))).require_passed()


@pytest.mark.parametrize("sampling", ["poisson", "full-batch"])
def test_without_amplification_full_batches_pass(
    build: ModuleType, key: Any, sampling: str
) -> None:
    transcript = Composed(event=Gaussian(noise_multiplier=10.0), count=10)
    item = build.guarantee(epsilon=8.0, profile=(), sampling_as_implemented=sampling)
    assert failed(build, key, item, transcripts={"training": transcript}) == []
    shuffled = dataclasses.replace(item, sampling_as_implemented="shuffled")
    assert failed(build, key, shuffled, transcripts={"training": transcript}) == [
        "SAMPLING_MISMATCH"
    ]


@pytest.mark.parametrize("overlap", ["unknown", "partial", "contained"])
def test_overlap_must_be_accepted_by_name(build: ModuleType, key: Any, overlap: str) -> None:
    public = dataclasses.replace(build.claim().public_data[0], overlap_with_protected=overlap)
    assert failed(build, key, public_data=(public,)) == ["PUBLIC_DATA_OVERLAP"]
    assert failed(build, key, public_data=(public,), public_overlap={"none", overlap}) == []


def test_a_policy_may_demand_less_but_says_so(build: ModuleType, key: Any) -> None:
    loose = build.guarantee(covers_all_private_accesses=False, sampling_as_implemented="shuffled")
    found = failed(
        build,
        key,
        loose,
        require_full_coverage=False,
        require_sampling_as_implemented=False,
        derivation=({"step": "quantize", "dataDependent": True},),
    )
    assert found == []


def test_a_report_of_no_rules_is_no_pass() -> None:
    assert not PolicyReport(rules=()).passed


def test_integrity_only_is_named_in_its_report(build: ModuleType, key: Any) -> None:
    policy = Policy.integrity_only(build.trust(key))
    report = check(policy, build.certify(build.no_guarantee()))
    assert report.passed
    (rule,) = report.rules
    assert rule.rule == "integrity only"
    assert "no privacy rule" in rule.found


def test_checking_one_certificate_does_not_change_the_next(build: ModuleType, key: Any) -> None:
    policy = build.policy(key)
    sound, false = build.certify(), build.certify(build.guarantee(unit="page"))
    before = check(policy, false)
    assert check(policy, sound).passed
    assert check(policy, false) == before
    assert not before.passed


@pytest.mark.parametrize(
    "change",
    [
        {"adjacency": {"swap"}},
        {"kinds": {"maybe"}},
        {"kinds": {"dp": True, "empirical": False}},
        {"accountants": {"gdp-clt"}},
        {"max_epsilon": -1},
        {"max_epsilon": math.inf},
        {"max_delta": None},
        {"max_delta": 1e5},
        {"max_total_bytes": -1},
        {"min_version": True},
        {"min_assurance": "high"},
        {"trust": None},
        {"model": 3},
        {"model": ""},
        {"max_age_days": "30"},
    ],
)
def test_a_policy_that_means_nothing_is_a_callers_error(
    build: ModuleType, key: Any, change: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        build.policy(key, **change)


TOML = """
trust = "keys/trust.json"
max_epsilon = 8
max_delta = 1e-5
privacy_units = ["document"]
model = "invoice-kie"
"""


def test_a_policy_is_read_from_toml(build: ModuleType, key: Any, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "trust.json").write_bytes(build.trust(key).to_json())
    path = tmp_path / "policy.toml"
    path.write_text(TOML)
    policy = Policy.from_toml(path)
    assert policy == build.policy(key, model="invoice-kie")
    assert check(policy, build.certify()).passed
    for encoding in ("utf-8-sig", "utf-16"):  # as editors of Windows save it
        path.write_bytes(TOML.encode(encoding))
        with pytest.raises(InputError, match="starts with a byte order mark, expected plain UTF-8"):
            Policy.from_toml(path)
    path.write_bytes(TOML.encode() + b"# caf\xe9")
    with pytest.raises(InputError, match="no UTF-8 at byte .*, expected plain UTF-8"):
        Policy.from_toml(path)
    path.write_text(TOML.replace("= 8", '= "8"'))
    with pytest.raises(InputError, match="max_epsilon is '8'; expected a number"):
        Policy.from_toml(path)


def test_a_policy_finds_its_files_from_wherever_it_is_read(
    build: ModuleType, key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that was looked for beside the working directory would be none, and revoke nothing."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "trust.json").write_bytes(build.trust(key).to_json())
    (tmp_path / "policy.toml").write_text(f'{TOML}revocations = "keys/list.jsonl"\n')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    policy = Policy.from_toml(Path("..") / "policy.toml")
    assert policy.revocations is not None
    assert policy.revocations.resolve() == tmp_path / "keys" / "list.jsonl"


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        Policy.from_toml(tmp_path / "policy.toml")
