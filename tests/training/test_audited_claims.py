"""Claims and their own audits: what an audit refutes is refused, and what it says is certified."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import hushdoc_builders as build
import pytest

from hushdoc.certificate.claim import Claim
from hushdoc.errors import HushdocError, InputError, PrivacyError
from hushdoc_training import audited_claims
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.runs import continued


def audited(lower: float | None, claimed: float = 1.0, **change: Any) -> Claim:
    """Returns a claim of epsilon 7.7 at 1e-5, audited by a run that claims something else."""
    audit = build.audit(epsilon_lower=lower, **change)
    run = AuditedRun(audit=audit, claimed=claimed, ceiling=4.0, details={"guesses": 250})
    return audited_claims.with_audits(build.claim(), [run])


def test_a_twin_below_its_own_claim_passes_and_says_what_was_done() -> None:
    claim = audited(0.3)
    audited_claims.require_unrefuted(claim)
    assert claim.guarantees[0].audit_lower_bound == 0.3
    assert claim.training["audits"][0] == {
        "method": "one-run audit",
        "claimed_epsilon": 1.0,
        "epsilon_lower": 0.3,
        "delta": build.DELTA,
        "confidence": 0.95,
        "ceiling": 4.0,
        "guesses": 250,
    }
    assert Claim.from_json(claim.to_json()).training == json.loads(claim.to_json())["training"]


def test_a_twin_above_its_own_claim_is_refused_though_the_model_claims_more() -> None:
    """A bound of 1.2 says nothing against epsilon 7.7; the run that it attacked claims 1."""
    with pytest.raises(PrivacyError, match=r"at least 1\.2.*attacked claims 1") as refused:
        audited_claims.require_unrefuted(audited(1.2))
    assert (refused.value.code, refused.value.exit_code) == ("AUDIT_CONTRADICTION", 5)
    run = AuditedRun(audit=build.audit(epsilon_lower=1.2), claimed=1.0, ceiling=4.0)
    with pytest.raises(PrivacyError, match="Release nothing"):
        run.require_unrefuted()


def test_what_goes_on_from_a_refuted_run_is_refused_though_both_together_claim_more() -> None:
    """The bound of 1.2 is below what both spend, and was held against that alone."""

    def twice_further(before: Claim) -> Claim:
        once = continued.listed_together(build.claim(), before)
        return continued.listed_together(build.claim(), once)

    audited_claims.require_unrefuted(twice_further(audited(0.3)))
    assert "audits" not in twice_further(audited(1.2)).training
    with pytest.raises(PrivacyError, match=r"at least 1\.2.*attacked claims 1") as refused:
        audited_claims.require_unrefuted(twice_further(audited(1.2)))
    assert refused.value.code == "AUDIT_CONTRADICTION"


def test_a_bound_at_the_claim_itself_does_not_refute_it() -> None:
    audited_claims.require_unrefuted(audited(1.0))


@pytest.mark.parametrize(
    "change",
    [{}, {"adversary": "api-user"}, {"delta": 1e-7}],
    ids=["same view", "sees less", "smaller delta"],
)
def test_audits_above_what_is_guaranteed_are_refused(change: dict[str, Any]) -> None:
    claim = replace(build.claim(), audits=(build.audit(epsilon_lower=20.0, **change),))
    with pytest.raises(PrivacyError, match="is guaranteed") as refused:
        audited_claims.require_unrefuted(claim)
    assert refused.value.code == "AUDIT_CONTRADICTION"


def test_a_declared_lower_bound_above_epsilon_is_refused() -> None:
    claim = build.claim(build.guarantee(audit_lower_bound=9.0))
    with pytest.raises(PrivacyError, match="auditLowerBound"):
        audited_claims.require_unrefuted(claim)


def test_an_attack_that_finds_everybody_does_not_pass_for_want_of_a_bound() -> None:
    """An area of 1 with no bound was held against no epsilon at all."""
    silent = build.audit(epsilon_lower=None, delta=None, confidence=None, auc=1.0)
    claim = replace(build.claim(), audits=(silent,))
    with pytest.raises(InputError, match="has no lower bound") as refused:
        audited_claims.require_unrefuted(claim)
    assert refused.value.code == "BAD_AUDIT"


@pytest.mark.parametrize(
    "change", [{"unit": "page"}, {"adversary": "server"}], ids=["another unit", "sees more"]
)
def test_audits_of_something_else_are_held_against_nothing(change: dict[str, Any]) -> None:
    claim = replace(build.claim(), audits=(build.audit(epsilon_lower=20.0, **change),))
    audited_claims.require_unrefuted(claim)


def test_a_guarantee_of_kind_empirical_needs_no_bound() -> None:
    silent = build.audit(epsilon_lower=None, delta=None, confidence=None, auc=1.0)
    empirical = build.guarantee(kind="empirical", epsilon=None, delta=None, profile=())
    audited_claims.require_unrefuted(replace(build.claim(empirical), audits=(silent,)))


@pytest.mark.parametrize(
    "entries",
    [
        "none",
        ["none"],
        [{}],
        [{"epsilon_lower": 0.1}],
        [{"epsilon_lower": None, "claimed_epsilon": 1.0}],
        [{"epsilon_lower": 0.1, "claimed_epsilon": True}],
        [{"epsilon_lower": float("nan"), "claimed_epsilon": 1.0}],
    ],
)
def test_entries_that_say_nothing_are_refused(entries: Any) -> None:
    claim = build.claim(training={"audits": entries})
    with pytest.raises(HushdocError) as refused:
        audited_claims.require_unrefuted(claim)
    assert refused.value.code == "BAD_AUDIT"


def test_audits_add_up_and_none_changes_nothing() -> None:
    claim = audited(0.3)
    assert audited_claims.with_audits(claim, []) is claim
    run = AuditedRun(audit=build.audit(epsilon_lower=0.1), claimed=1.0, ceiling=4.0)
    both = audited_claims.with_audits(claim, [run])
    assert len(both.audits) == len(both.training["audits"]) == 2
    assert both.guarantees[0].audit_lower_bound == 0.3
