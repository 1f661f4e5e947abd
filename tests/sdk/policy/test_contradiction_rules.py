"""What contradicts a guarantee: others against somebody who sees less, and rates of attacks."""

from __future__ import annotations

from typing import Any

import hushdoc_builders as build
import pytest

from hushdoc.certificate import adversaries, vocabulary
from hushdoc.policy.report import RuleResult
from hushdoc.policy.rules import check

WATCHED = {"aggregation": "secure-sum"}
NO_BOUND: dict[str, Any] = {"epsilon_lower": None, "delta": None, "confidence": None}


def failed(key: Any, *guarantees: Any, limits: Any = None, **change: Any) -> list[RuleResult]:
    report = check(build.policy(key, **(limits or {})), build.certify(*guarantees, **change))
    return list(report.failed)


def against(adversary: str, epsilon: float = 8.0, **change: Any) -> Any:
    watched = WATCHED if adversary in ("server", "co-client", "network-observer") else {}
    settings = {"epsilon": epsilon, "profile": (), **watched, **change}
    return build.guarantee(adversary=adversary, **settings)


def test_a_guarantee_that_is_weaker_for_who_sees_less_is_refused(key: Any) -> None:
    # Accepted against the server at 8, although the model alone shows more than that.
    limits = {"adversary": "server"}
    server, recipient = against("server"), against("model-recipient", 20.0)
    (rule,) = failed(key, server, recipient, limits=limits)
    assert (rule.rule, rule.code) == ("adversaries", "GUARANTEES_CONTRADICT")
    assert "epsilon 20" in rule.found
    assert "model-recipient, who sees less than server" in rule.found


@pytest.mark.parametrize(
    ("lesser", "wider", "contradicts"),
    [
        (against("api-user"), against("model-recipient"), False),
        (against("api-user", 7.9), against("model-recipient"), False),
        (against("api-user", 8.1), against("model-recipient"), True),
        (against("api-user", 8.1), against("network-observer"), True),
        (against("model-recipient", 8.1), against("co-client"), True),
        # Nobody sees less than the other here.
        (against("server", 8.1), against("co-client"), False),
        (against("synthetic-data-recipient", 8.1), against("model-recipient"), False),
        (against("model-recipient", 8.1), against("model-recipient"), False),
        (against("server", 8.1), against("api-user"), False),
        # Another unit, or another neighbour, is another statement.
        (against("api-user", 8.1, unit="page"), against("server"), False),
        (against("api-user", 8.1, adjacency="zero-out"), against("server"), False),
        # A smaller delta may cost more; a larger one may not.
        (against("api-user", 8.1, delta=1e-6), against("server"), False),
        (against("api-user", 8.1, delta=1e-4), against("server"), True),
        (against("api-user", 7.9, profile=((8.1, 1e-5),)), against("server"), True),
        (against("api-user", 7.9), against("server", profile=((7.8, 1e-6),)), True),
        # What is not proven is weaker than what is, and refutes nothing that is not.
        (against("api-user", kind="dp-conditional", condition="if"), against("server"), True),
        (against("api-user", kind="empirical"), against("server"), True),
        (build.no_guarantee(adversary="api-user"), against("server"), True),
        (
            build.no_guarantee(adversary="api-user"),
            against("server", kind="dp-conditional", condition="if"),
            False,
        ),
    ],
)
def test_who_sees_less_can_not_learn_more(lesser: Any, wider: Any, contradicts: bool) -> None:
    for both in ([lesser, wider], [wider, lesser]):
        found = adversaries.contradictions(both)
        assert found == ([(lesser, wider)] if contradicts else [])


def test_seeing_less_is_an_order() -> None:
    words = vocabulary.ADVERSARIES
    sees = adversaries.sees_no_more
    for one in words:
        assert sees(one, one)
        for other in words:
            assert one == other or not (sees(one, other) and sees(other, one))
            for third in words:
                assert sees(one, third) or not (sees(one, other) and sees(other, third))


@pytest.mark.parametrize(
    "pairs", [((1.0, 0.0),), ((0.5, 1e-5),), ((0.02, 0.01), (0.9999, 1e-4)), ((0.0, 1.0),)]
)
def test_rates_without_a_bound_refute_what_they_rule_out(key: Any, pairs: Any) -> None:
    audit = build.audit(**NO_BOUND, tpr_at_fpr=pairs, canaries=None)
    (rule,) = failed(key, audits=(audit,))
    assert rule.code == "AUDIT_CONTRADICTION"
    assert "one-run audit has rates that show at least" in rule.found


def test_rates_of_few_trials_refute_less(key: Any) -> None:
    perfect = {**NO_BOUND, "tpr_at_fpr": ((1.0, 0.0),)}
    assert failed(key, audits=(build.audit(**perfect, canaries=1000),)) == []
    assert failed(key, audits=(build.audit(**perfect, canaries=0),)) == []
    (rule,) = failed(key, audits=(build.audit(**perfect, canaries=100_000),))
    assert rule.code == "AUDIT_CONTRADICTION"


def test_where_the_auditor_gives_a_bound_the_rates_are_for_people(key: Any) -> None:
    audit = build.audit(epsilon_lower=0.5, tpr_at_fpr=((1.0, 0.0),), canaries=None)
    assert failed(key, audits=(audit,)) == []


def test_rates_by_an_auditor_count_as_the_issuers_do(key: Any) -> None:
    audit = build.audit(**NO_BOUND, tpr_at_fpr=((1.0, 0.0),), canaries=None)
    report = check(build.policy(key), build.certify(), audits=[build.audit_report(audit)])
    assert [rule.code for rule in report.failed] == ["AUDIT_CONTRADICTION"]
