"""Audits: what attacks measured, and which audits the issuer agreed to beforehand.

A certificate may carry its issuer's own audits. Anybody else signs a line of their own in the
artifact's envelope file, an in-toto statement whose subject is the digest of the certificate's
signed bytes, so that it can't be moved to another certificate. An audit only ever weakens a
claim: a lower bound above the declared epsilon refutes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.certificate import attack_rates
from hushdoc.certificate.vocabulary import ADVERSARIES, PRIVACY_UNITS
from hushdoc.errors import CertificateError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Record,
    integer,
    listed,
    matching,
    number,
    optional,
    pair,
    record,
    require_version,
    sha256,
    stored,
    text,
    time,
    word,
)

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
AUDIT_PREDICATE_TYPE = "https://hushdoc.dev/privacy-audit/v1"
AUDIT_SCHEMA_VERSION = 1
SUBJECT_NAME = "certificate"
"""What an audit statement calls the certificate it is about."""

MAX_AUDITS = 16
"""Audits by others that an artifact can carry."""

MAX_RESULTS, MAX_RATES = 64, 16
"""Audits of one certificate or report, and pairs of rates of one audit."""

MAX_AUDIT_BYTES = 64 * 1024
"""One audit's line, in bytes."""

certificate_id = matching("[0-9a-f]{32}", "32 hexadecimal digits")
_share = number(maximum=1.0)


@dataclass(frozen=True, kw_only=True)
class PreRegisteredAudit(Record):
    """An audit that the issuer agreed to before anybody ran it.

    Attributes:
        protocol: What is done, in words, or where the protocol is published.
        population: From which canaries and non-members are drawn.
        query_budget: How often the auditor may query the model.
        seed_commitment: SHA-256 of the salted seed, so that it can't be chosen afterwards.
    """

    protocol: str = stored(text)
    population: str = stored(text)
    query_budget: int = stored(integer(minimum=1))
    seed_commitment: str = stored(sha256)


@dataclass(frozen=True, kw_only=True)
class Audit(Record):
    """What one attack measured.

    Attributes:
        method: Which attack, in words.
        adversary: Whose view it had, one of ADVERSARIES.
        unit: What it distinguished, one of PRIVACY_UNITS.
        canaries: Records that were inserted or left out for it, if any.
        runs: Training runs that it attacked.
        confidence: Probability that epsilon_lower is right, if there is one.
        epsilon_lower: No (epsilon, delta) below this can be true.
        delta: The delta of that bound.
        tpr_at_fpr: ((true positive rate, false positive rate), ...).
        auc: Area under that curve.
        evidence: Digest of the published evidence.
    """

    method: str = stored(text)
    adversary: str = stored(word(ADVERSARIES))
    unit: str = stored(word(PRIVACY_UNITS))
    canaries: int | None = stored(optional(integer()))
    runs: int = stored(integer(minimum=1))
    confidence: float | None = stored(optional(_share))
    epsilon_lower: float | None = stored(optional(number()))
    delta: float | None = stored(optional(_share))
    tpr_at_fpr: tuple[tuple[float, float], ...] = stored(
        listed(pair(_share, _share), maximum=MAX_RATES)
    )
    auc: float | None = stored(optional(_share))
    evidence: str | None = stored(optional(sha256), default=None)

    def problem(self) -> str | None:
        """Returns which part of a lower bound is missing, or None."""
        parts = (self.epsilon_lower, self.delta, self.confidence)
        if len({part is None for part in parts}) > 1:
            return (
                f"epsilonLower, delta, confidence are {parts}; a bound needs all three, and no "
                "bound none of them"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class AuditReport(Record):
    """What an auditor signs about a model.

    Attributes:
        certificate_id: Of the audited certificate.
        auditor: Who audited it.
        conducted_at: When, UTC.
        audits: What was measured, at least one.
    """

    certificate_id: str = stored(certificate_id)
    auditor: str = stored(text)
    conducted_at: str = stored(time)
    audits: tuple[Audit, ...] = stored(listed(record(Audit), maximum=MAX_RESULTS))

    def problem(self) -> str | None:
        """Returns what a report lacks that says nothing, or None."""
        if not self.audits:
            return "there is no audit; a report says what at least one audit measured"
        for audit in self.audits:
            if audit.epsilon_lower is None and audit.auc is None and not audit.tpr_at_fpr:
                return "an audit has no result; give epsilonLower, tprAtFpr or auc"
        return None


def read_statement(content: bytes, predicate_type: str, *, what: str, advice: str) -> Any:
    """Returns subject and predicate of an in-toto statement with this predicate type."""
    data = strict_json.loads(content, what=f"The {what}")
    keys = {"_type", "subject", "predicateType", "predicate"}
    if not isinstance(data, dict) or data.keys() != keys or data["_type"] != STATEMENT_TYPE:
        raise CertificateError(
            f"The {what}'s payload is not an in-toto statement: expected the keys {sorted(keys)} "
            f"and the type {STATEMENT_TYPE}. Ask whoever signed it for a sound one."
        )
    if data["predicateType"] != predicate_type:
        raise CertificateError(
            f"The {what} has the predicate {short_repr(data['predicateType'])}, expected "
            f"{predicate_type}. {advice}",
            code="WRONG_PREDICATE",
        )
    return data["subject"], data["predicate"]


def audit_statement(report: AuditReport, certificate_digest: str) -> bytes:
    """Returns the in-toto Statement v1 that an auditor signs, if it can be read back."""
    content = strict_json.dumps(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": SUBJECT_NAME, "digest": {"sha256": certificate_digest}}],
            "predicateType": AUDIT_PREDICATE_TYPE,
            "predicate": {"schemaVersion": AUDIT_SCHEMA_VERSION, **report.to_dict()},
        }
    )
    parse_audit_statement(content, certificate_digest)
    return content


def parse_audit_statement(content: bytes, certificate_digest: str) -> AuditReport:
    """Returns the report in a verified envelope's payload, which must be about this certificate."""
    subject, predicate = read_statement(
        content,
        AUDIT_PREDICATE_TYPE,
        what="audit",
        advice="Only audits may follow the certificate.",
    )
    if subject != [{"name": SUBJECT_NAME, "digest": {"sha256": certificate_digest}}]:
        raise CertificateError(
            "The audit is about another certificate than the one in the first line. Fetch the "
            "artifact again.",
            code="BAD_SUBJECT",
        )
    return _report_from(predicate)


def _report_from(data: Any) -> AuditReport:
    require_version(data, AUDIT_SCHEMA_VERSION, "audit")
    fields = {key: value for key, value in data.items() if key != "schemaVersion"}
    return AuditReport.from_dict(fields, "audit")


def refuted(
    points: Sequence[tuple[float, float]], audits: Sequence[Audit]
) -> tuple[Audit, float, tuple[float, float]] | None:
    """Returns an audit, its lower bound and the (epsilon, delta) that it refutes, or None.

    A bound at delta applies to every point with that delta or a smaller one. Where all declared
    deltas are larger, it applies to the smallest of them: an audit above the claim never passes.
    Where the auditor gives no bound, that of the rates at each point's delta counts. The audits
    are those about the same unit, from a view that the adversary also has.
    """
    least_delta = min((delta for _, delta in points), default=0.0)
    for audit in audits:
        lower_bound = _lower_bound(audit, least_delta)
        # No bound grows with delta, so most audits are done with at the least one.
        if lower_bound(least_delta) <= min((epsilon for epsilon, _ in points), default=math.inf):
            continue
        for epsilon, delta in points:
            if epsilon < lower_bound(delta):
                return audit, lower_bound(delta), (epsilon, delta)
    return None


def _lower_bound(audit: Audit, least_delta: float) -> Callable[[float], float]:
    """What an audit says that epsilon is at least, by the delta that is declared."""
    epsilon, delta = audit.epsilon_lower, audit.delta
    if epsilon is not None and delta is not None:
        limit = max(delta, least_delta)
        return lambda declared: epsilon if declared <= limit else 0.0
    num_trials = None if audit.canaries is None else audit.canaries * audit.runs
    compared = attack_rates.comparisons(audit.tpr_at_fpr, num_trials)
    return lambda declared: attack_rates.least_epsilon(compared, declared)
