"""What auditors measured: strict to read, bound to one certificate, only ever against a claim."""

from __future__ import annotations

import dataclasses
import json
from types import ModuleType
from typing import Any

import pytest
from hushdoc_corruption import set_in

from hushdoc.certificate import audit_reports
from hushdoc.errors import CertificateError

DIGEST = "cd" * 32


def code_of(data: Any) -> str:
    with pytest.raises(CertificateError) as caught:
        audit_reports.parse_audit_statement(json.dumps(data).encode(), DIGEST)
    return caught.value.code


def test_a_report_is_read_as_it_was_written(build: ModuleType) -> None:
    report = build.audit_report(
        build.audit(), build.audit(epsilon_lower=None, delta=None, confidence=None)
    )
    assert (
        audit_reports.parse_audit_statement(audit_reports.audit_statement(report, DIGEST), DIGEST)
        == report
    )


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "BAD_STATEMENT"),
        ("more", 1, "BAD_STATEMENT"),
        ("predicateType", None, "WRONG_PREDICATE"),
        ("subject", [], "BAD_SUBJECT"),
        ("subject", None, "BAD_SUBJECT"),
        ("predicate", None, "BAD_FIELD"),
        ("predicate.schemaVersion", True, "BAD_FIELD"),
        ("predicate.certificateId", "0" * 31, "BAD_FIELD"),
        ("predicate.conductedAt", "yesterday", "BAD_FIELD"),
        ("predicate.auditor", "", "BAD_FIELD"),
        ("predicate.audits", {}, "BAD_FIELD"),
        ("predicate.note", "x", "BAD_FIELD"),
        ("predicate.audits.0.adversary", "anybody", "UNKNOWN_VALUE"),
        ("predicate.audits.0.runs", 0, "BAD_FIELD"),
        ("predicate.audits.0.confidence", 1.1, "BAD_FIELD"),
        ("predicate.audits.0.delta", None, "BAD_FIELD"),
        ("predicate.audits.0.epsilonLower", -1, "BAD_FIELD"),
        ("predicate.audits.0.auc", 2, "BAD_FIELD"),
        ("predicate.audits.0.tprAtFpr", [[1, 2]], "BAD_FIELD"),
        ("predicate.audits.0.evidence", "ab" * 32, "BAD_FIELD"),
    ],
)
def test_a_wrong_field_is_refused(build: ModuleType, path: str, value: Any, code: str) -> None:
    data = json.loads(audit_reports.audit_statement(build.audit_report(), DIGEST))
    set_in(data, path, value, new=path in ("more", "predicate.note"))
    assert code_of(data) == code


def test_what_can_not_be_read_is_never_written(build: ModuleType) -> None:
    wrong = dataclasses.replace(build.audit_report(), conducted_at="now")
    with pytest.raises(CertificateError):
        audit_reports.audit_statement(wrong, DIGEST)


@pytest.mark.parametrize(
    ("points", "lower", "delta", "refuted"),
    [
        ([(8.0, 1e-5)], 7.9, 1e-5, None),
        ([(8.0, 1e-5)], 8.0, 1e-5, None),
        ([(8.0, 1e-5)], 8.1, 1e-5, (8.0, 1e-5)),
        # A bound at a larger delta holds at every smaller one.
        ([(8.0, 1e-5)], 8.1, 1e-3, (8.0, 1e-5)),
        # The point at 1e-3 claims more, and the bound applies to it.
        ([(8.0, 1e-5), (5.0, 1e-3)], 6.0, 1e-3, (5.0, 1e-3)),
        ([(8.0, 1e-5), (5.0, 1e-3)], 6.0, 1e-4, None),
        # Below every declared delta nothing is comparable; a bound above the claim still rejects.
        ([(8.0, 1e-5)], 9.0, 1e-7, (8.0, 1e-5)),
        ([], 9.0, 1e-5, None),
    ],
)
def test_a_lower_bound_refutes_what_lies_below_it(
    build: ModuleType,
    points: list[tuple[float, float]],
    lower: float,
    delta: float,
    refuted: tuple[float, float] | None,
) -> None:
    audit = build.audit(epsilon_lower=lower, delta=delta)
    without = build.audit(epsilon_lower=None, delta=None, confidence=None)
    found = audit_reports.refuted(points, [without, audit])
    assert found == (None if refuted is None else (audit, lower, refuted))


@pytest.mark.parametrize("says", ["nothing", "no result"])
def test_a_report_that_says_nothing_is_neither_written_nor_read(
    build: ModuleType, says: str
) -> None:
    report = build.audit_report()
    silent = dict.fromkeys(("epsilon_lower", "delta", "confidence", "auc"))
    audits = () if says == "nothing" else (build.audit(**silent, tpr_at_fpr=()),)
    with pytest.raises(CertificateError, match="no audit|no result"):
        audit_reports.audit_statement(dataclasses.replace(report, audits=audits), DIGEST)
    data = json.loads(audit_reports.audit_statement(report, DIGEST))
    data["predicate"]["audits"] = [audit.to_dict() for audit in audits]
    assert code_of(data) == "BAD_FIELD"


def test_any_result_is_one(build: ModuleType) -> None:
    silent = dict.fromkeys(("epsilon_lower", "delta", "confidence", "auc"))
    for result in ({"auc": 0.5}, {"tpr_at_fpr": ((0.0, 0.0),)}):
        audit = build.audit(**{**silent, "tpr_at_fpr": (), **result})
        assert audit_reports.audit_statement(build.audit_report(audit), DIGEST)
