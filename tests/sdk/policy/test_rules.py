"""Policies: every rule, each alone and all at once; and which policies are refused."""

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
from hushdoc.signing.trust_store import TrustStore


def failed(build: ModuleType, key: Any, *guarantees: Any, **change: Any) -> list[str]:
    limits = {field.name for field in dataclasses.fields(Policy)}
    of_policy = {name: value for name, value in change.items() if name in limits}
    rest = {name: value for name, value in change.items() if name not in limits}
    report = check(build.policy(key, **of_policy), build.certify(*guarantees, **rest))
    return [rule.code for rule in report.failed]


def test_an_honest_certificate_passes_every_rule(build: ModuleType, key: Any) -> None:
    report = check(build.policy(key), build.certify())
    assert report.passed
    assert len(report.rules) == 17
    assert report.to_dict()["passed"] is True
    report.require_passed()


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({"kind": "dp-conditional", "condition": "if secure"}, ["KIND_NOT_ALLOWED"]),
        (
            {"kind": "empirical", "transcript": None, "epsilon": 1.0},
            ["KIND_NOT_ALLOWED", "SAMPLING_MISMATCH", "UNACCOUNTED_ACCESS"],
        ),
        ({"unit": "sequence"}, ["UNIT_NOT_ACCEPTED"]),
        ({"unit": "user"}, ["UNIT_NOT_ACCEPTED"]),
        ({"adversary": "api-user"}, ["NO_GUARANTEE_FOR_ADVERSARY", "UNIT_NOT_ACCEPTED"]),
        ({"adjacency": "replace-one"}, ["ADJACENCY_NOT_ACCEPTED", "EPSILON_NOT_REPRODUCED"]),
        ({"epsilon": 8.001, "profile": ()}, ["EPSILON_TOO_LARGE"]),
        ({"epsilon": 1.0, "profile": ()}, ["EPSILON_NOT_REPRODUCED"]),
        (
            {"epsilon": 30.0, "delta": 1.1e-5, "profile": ()},
            ["EPSILON_TOO_LARGE", "DELTA_TOO_LARGE"],
        ),
        ({"covers_all_private_accesses": False}, ["UNACCOUNTED_ACCESS"]),
        ({"sampling_as_implemented": "shuffled"}, ["SAMPLING_MISMATCH"]),
        ({"sampling_as_implemented": "full-batch"}, ["SAMPLING_MISMATCH"]),
        ({"hyperparameter_tuning": "unaccounted"}, ["TUNING_NOT_ACCEPTED"]),
        ({"rng": "seeded"}, ["RNG_NOT_ACCEPTED"]),
        (
            {"transcript": None},
            ["SAMPLING_MISMATCH", "UNACCOUNTED_ACCESS", "NO_TRANSCRIPT"],
        ),
    ],
)
def test_each_rule_alone(
    build: ModuleType, key: Any, change: dict[str, Any], codes: list[str]
) -> None:
    found = failed(build, key, build.guarantee(**change))
    if change.get("adversary"):
        assert found[:2] == codes
        assert len(found) == 12
    else:
        assert found == codes


@pytest.mark.parametrize(
    ("audit", "refuted"),
    [
        ({"epsilon_lower": 7.0}, False),
        ({"epsilon_lower": 7.5}, True),
        # Whoever only queries the model sees less than whoever has it.
        ({"epsilon_lower": 7.5, "adversary": "api-user"}, True),
        ({"epsilon_lower": 7.5, "adversary": "server"}, False),
        ({"epsilon_lower": 7.5, "unit": "sequence"}, False),
        ({"epsilon_lower": None, "delta": None, "confidence": None, "auc": 1.0}, False),
    ],
)
def test_an_audit_above_the_claim_always_rejects(
    build: ModuleType, key: Any, audit: dict[str, Any], refuted: bool
) -> None:
    measured = build.audit(**audit)
    codes = ["AUDIT_CONTRADICTION"] if refuted else []
    assert failed(build, key, audits=(measured,)) == codes
    report = build.audit_report(measured)
    found = check(build.policy(key), build.certify(), audits=[report])
    assert [rule.code for rule in found.failed] == codes


def test_the_issuers_own_lower_bound_counts(build: ModuleType, key: Any) -> None:
    assert failed(build, key, build.guarantee(audit_lower_bound=7.0)) == []
    found = failed(build, key, build.guarantee(audit_lower_bound=7.6))
    assert found == ["AUDIT_CONTRADICTION"]


def test_every_point_of_the_profile_is_held_against_audits(build: ModuleType, key: Any) -> None:
    (weaker, delta), _ = build.guarantee().profile
    assert delta == 1e-4
    audit = build.audit(epsilon_lower=(weaker + build.guarantee().epsilon) / 2, delta=delta)
    assert failed(build, key, audits=(audit,)) == ["AUDIT_CONTRADICTION"]


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


@pytest.mark.parametrize("mode", ["fast", "exact", "offline"])
def test_every_mode_of_recomputation_accepts_an_honest_claim(
    build: ModuleType, key: Any, mode: str
) -> None:
    assert failed(build, key, recompute=mode) == []
    guarantee = build.guarantee(epsilon=1.0, profile=())
    assert failed(build, key, guarantee, recompute=mode) == ["EPSILON_NOT_REPRODUCED"]


def test_gdp_clt_is_never_trusted(build: ModuleType, key: Any) -> None:
    accountant = build.Accountant(name="gdp-clt", library="x", version="1", error_bound=None)
    found = failed(build, key, build.guarantee(accountant=accountant))
    assert found == ["ACCOUNTANT_NOT_ACCEPTED", "EPSILON_NOT_REPRODUCED"]
    with pytest.raises(ValueError, match="accountants"):
        build.policy(key, accountants={"gdp-clt"})


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
    with pytest.raises(PolicyViolationError, match="15 rules failed") as caught:
        report.require_passed()
    assert caught.value.report is report
    assert caught.value.code == "ASSURANCE_TOO_LOW"
    assert caught.value.exit_code == 5


def test_a_single_failure_is_one_rule(build: ModuleType, key: Any) -> None:
    with pytest.raises(PolicyViolationError, match=r"\(1 rule failed\)"):
        check(build.policy(key), build.certify(build.guarantee(rng="seeded"))).require_passed()


def test_kind_none_is_refused(build: ModuleType, key: Any) -> None:
    found = failed(build, key, build.no_guarantee())
    assert "KIND_NOT_ALLOWED" in found
    assert "EPSILON_TOO_LARGE" in found


def test_all_guarantees_about_an_accepted_unit_must_pass(build: ModuleType, key: Any) -> None:
    assert failed(build, key, build.guarantee(), build.no_guarantee(unit="user")) == []
    both = failed(build, key, build.guarantee(), build.no_guarantee(unit="document"))
    assert "KIND_NOT_ALLOWED" in both


def test_another_guarantee_that_is_false_makes_all_untrustworthy(
    build: ModuleType, key: Any
) -> None:
    false = build.guarantee(adversary="server", epsilon=0.1, profile=())
    assert failed(build, key, build.guarantee(), false) == ["EPSILON_NOT_REPRODUCED"]


def test_an_access_in_another_transcript_is_not_covered(build: ModuleType, key: Any) -> None:
    access = build.DataAccess(
        data="invoices", purpose="tuning", accounted_in=("tuning",), treatment="accounted"
    )
    found = failed(
        build,
        key,
        data_accesses=(*build.claim().data_accesses, access),
        transcripts={"training": build.TRANSCRIPT, "tuning": build.TRANSCRIPT},
    )
    assert found == ["UNACCOUNTED_ACCESS"]


def test_what_is_not_declared_is_denied(build: ModuleType, key: Any) -> None:
    assert failed(build, key, data_accesses=()) == ["UNACCOUNTED_ACCESS"]
    assert failed(build, key, data_accesses=(), protected_data=()) == ["UNACCOUNTED_ACCESS"]
    assert not PolicyReport(rules=()).passed


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
        {"privacy_units": "document"},
        {"privacy_units": {"documents"}},
        {"adversary": "everyone"},
        {"adjacency": {"swap"}},
        {"kinds": {"maybe"}},
        {"max_epsilon": -1},
        {"max_epsilon": math.nan},
        {"max_epsilon": math.inf},
        {"max_epsilon": 10**400},
        {"max_epsilon": True},
        {"max_epsilon": "8"},
        {"max_delta": None},
        {"threshold": 0},
        {"threshold": 1.5},
        {"max_files": 0},
        {"max_total_bytes": -1},
        {"min_version": True},
        {"min_assurance": "high"},
        {"recompute": "never"},
        {"require_signature": "no"},
        {"require_full_coverage": 0},
        {"trust": None},
        {"model": 3},
        {"model": ""},
        {"max_age_days": 0},
        {"max_age_days": True},
        {"max_age_days": "30"},
        {"revocation": "never"},
        {"revocation": "required"},
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


@pytest.mark.parametrize(
    "edit",
    [
        "max_epsilom = 8",
        "privacy_required = false",
        "verify = false",
        'kinds = "dp"',
        "max_files = 1.5",
        "trust = 3",
        "max_epsilon = nan",
        "max_epsilon = inf",
        "max_epsilon = " + "9" * 5000,
        "kinds = " + "[" * 20_000,
        'revocations = "a\\u0000b"',
        "max_epsilon = 2026-11-21",
        "adversary = 3",
        "kinds = [3]",
        "kinds = [[]]",
        "model = ['a']",
        "not toml",
        "[policy]",
        "max_age_days = -1",
        'revocation = "required"',
        "revocations = 3",
    ],
)
def test_a_wrong_file_is_refused(build: ModuleType, key: Any, tmp_path: Path, edit: str) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "trust.json").write_bytes(build.trust(key).to_json())
    path = tmp_path / "policy.toml"
    name = edit.split(" ")[0]
    lines = [line for line in TOML.splitlines() if line.split(" ")[0] != name]
    path.write_text("\n".join([*lines, edit]))
    with pytest.raises(InputError) as caught:
        Policy.from_toml(path)
    assert caught.value.code == "BAD_POLICY"


def test_missing_limits_and_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    with pytest.raises(InputError, match="can't be read"):
        Policy.from_toml(path)
    path.write_text('trust = "none.json"\nmax_epsilon = 8')
    with pytest.raises(InputError) as caught:
        Policy.from_toml(path)
    assert caught.value.code == "BAD_TRUST_STORE"
    (tmp_path / "none.json").write_bytes(TrustStore(keys=()).to_json())
    with pytest.raises(InputError, match="max_delta"):
        Policy.from_toml(path)


def test_a_refusal_cannot_steer_the_terminal(build: ModuleType, key: Any) -> None:
    hostile = "x\x1b[2J\u202ey"
    access = build.DataAccess(
        data="invoices", purpose=hostile, accounted_in=(), treatment="unaccounted"
    )
    certificate = build.certify(
        data_accesses=(access,), derivation=({"step": hostile, "dataDependent": True},)
    )
    with pytest.raises(PolicyViolationError) as caught:
        check(build.policy(key), certificate).require_passed()
    assert str(caught.value).isprintable()
