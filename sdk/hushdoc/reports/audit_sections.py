"""Audits as HTML: what attacks measured, what they could have shown, which ones are still open."""

from __future__ import annotations

from collections.abc import Sequence

from hushdoc.certificate.audit_reports import Audit, AuditReport
from hushdoc.certificate.claim import Claim
from hushdoc.explanation.measurements import (
    WHAT_AUDITS_MEAN,
    audit_ceiling,
    audit_words,
    invitation_words,
)
from hushdoc.explanation.terms import ADVERSARY_WORDS, UNIT_WORDS
from hushdoc.viewing.markup import bullets, paragraph, safe, section, table

_HEADER = ("attack", "unit", "view of", "shows at least", "could show at best")


def measured(claim: Claim, reports: Sequence[AuditReport]) -> str:
    """Returns what the attacks of the issuer and of trusted auditors measured."""
    parts = [
        "<h3>By the issuer</h3>",
        _table(claim.audits, claim.training) or paragraph("No audit is declared."),
    ]
    for report in reports:
        parts.append(f"<h3>By {safe(report.auditor)}, {report.conducted_at}, signed</h3>")
        parts.append(_table(report.audits) or paragraph("No result."))
    return section("Audits", *parts, paragraph(WHAT_AUDITS_MEAN, style="soft"))


def invited(claim: Claim) -> str:
    """Returns the pre-registered audits; nothing where there is none."""
    return section(
        "Pre-registered audits, open to anybody",
        bullets(invitation_words(audit) for audit in claim.pre_registered_audits),
    )


def _table(audits: Sequence[Audit], training: object = None) -> str:
    rows = [
        (
            audit.method,
            UNIT_WORDS[audit.unit],
            ADVERSARY_WORDS[audit.adversary],
            _number(audit.epsilon_lower),
            _number(audit_ceiling(audit, training)),
        )
        for audit in audits
    ]
    details = [words for audit in audits for words in audit_words(audit, training)]
    return table(_HEADER, rows) + bullets(details)


def _number(value: float | None) -> str:
    return "-" if value is None else f"epsilon {value:.4g}"
