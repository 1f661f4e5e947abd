"""A certificate as one HTML page that a privacy officer can read, print and file.

The page loads nothing and runs nothing. It says in plain words what the certificate says and what
of it was checked; where nothing was checked, it says that first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hushdoc.certificate.claim import Guarantee
from hushdoc.explanation.guarantees import (
    FALSE_ALARM_RATES,
    comparison,
    guarantee_words,
    hit_rate_bound,
    odds,
    percent,
)
from hushdoc.explanation.limits import not_guaranteed
from hushdoc.explanation.terms import ADVERSARY_WORDS, ASSURANCE_WORDS, UNIT_WORDS
from hushdoc.reports import audit_sections, page_sections
from hushdoc.reports.profile_chart import profile_chart
from hushdoc.viewing.markup import banner, bars, bullets, figures, page, paragraph, safe, section

if TYPE_CHECKING:
    from hushdoc.artifact.artifact import VerificationReport
    from hushdoc.certificate.audit_reports import AuditReport
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.certificate.subjects import Subject
    from hushdoc.errors import HushdocError
    from hushdoc.signing.trust_store import TrustedKey


_FOREMOST = 3
"""Guarantees in the headline."""


def certificate_page(
    certificate: Certificate,
    report: VerificationReport | None,
    subjects: Sequence[Subject],
    *,
    signers: Sequence[TrustedKey] | None = None,
    audits: Sequence[AuditReport] = (),
    recompute: str | None = "fast",
    payload_sha256: str | None = None,
) -> str:
    """Returns the page as HTML.

    A `report` of None: the artifact was not checked; `signers` of None: signatures were not. Those
    of a report take precedence. `recompute` is one of `recompute.RECOMPUTE_MODES`, or None where
    the numbers are not recomputed.
    """
    if report is not None:
        signers = report.signers
    model = certificate.model
    return page(
        f"Privacy certificate of {model.name}, version {model.version}",
        (
            _head(certificate),
            '<div class="banners">' + _verdicts(certificate, report, signers, recompute) + "</div>",
            *(_meaning(item) for item in _private(certificate)),
            page_sections.against_whom(certificate),
            section(
                "What is not guaranteed",
                bullets(not_guaranteed(certificate.claim, certificate.derivation)),
            ),
            section("Caveats", bullets(certificate.claim.caveats)),
            audit_sections.measured(certificate.claim, audits),
            audit_sections.invited(certificate.claim),
            page_sections.data(certificate),
            page_sections.transcripts(certificate),
            page_sections.rules(report),
            page_sections.notes("Training, as declared by the issuer", certificate.claim.training),
            page_sections.notes("Utility, as declared by the issuer", certificate.claim.utility),
            page_sections.origin(certificate, subjects, signers),
            _foot(certificate, payload_sha256),
        ),
    )


def refusal_page(artifact: str, problem: HushdocError) -> str:
    """Returns the page of an artifact of which nothing could be shown, but that it is refused."""
    return page(
        f"Refused: {artifact}",
        (
            f'<header><p class="kicker">Privacy certificate</p><h1>{safe(artifact)}</h1></header>',
            '<div class="banners">'
            + banner("bad", f"Refused: {problem.code}", str(problem), "Rely on nothing in it.")
            + "</div>",
        ),
    )


def _private(certificate: Certificate) -> list[Guarantee]:
    return [item for item in certificate.claim.guarantees if item.kind in ("dp", "dp-conditional")]


def _head(certificate: Certificate) -> str:
    model = certificate.model
    more = len(certificate.claim.guarantees) - _FOREMOST
    return (
        '<header><p class="kicker">Privacy certificate</p>'
        f"<h1>{safe(model.name)}, version {model.version}</h1>"
        + "".join(paragraph(_headline(item), style="lead") for item in _foremost(certificate))
        + (paragraph(f"Further guarantees, below: {more}.", style="soft") if more > 0 else "")
        + paragraph(
            f"Task {model.task}. Issued {certificate.issued_at} by {certificate.issuer}; "
            + ASSURANCE_WORDS[certificate.assurance],
            style="soft",
        )
        + "</header>"
    )


def _foremost(certificate: Certificate) -> list[Guarantee]:
    """The guarantees of the headline: the weakest kinds come first, and of one the largest epsilon.

    The order in which the issuer wrote them says nothing.
    """
    order = {"none": 0, "empirical": 1, "dp-conditional": 2, "dp": 3}
    return sorted(
        certificate.claim.guarantees, key=lambda item: (order[item.kind], -(item.epsilon or 0.0))
    )[:_FOREMOST]


def _headline(item: Guarantee) -> str:
    if item.epsilon is None or item.delta is None or item.kind in ("none", "empirical"):
        return guarantee_words(item)
    condition = f", if {item.condition}" if item.condition else ""
    return (
        f"Differential privacy for every single {UNIT_WORDS[item.unit]} used in training, against "
        f"{ADVERSARY_WORDS[item.adversary]}: epsilon {item.epsilon:g}, delta "
        f"{item.delta:g}{condition}."
    )


def _verdicts(
    certificate: Certificate,
    report: VerificationReport | None,
    signers: Sequence[TrustedKey] | None,
    recompute: str | None,
) -> str:
    found = [_signature(signers, report), _policy(report)]
    if report is None or not report.files_checked:
        why = (
            "Run hushdoc verify to check them."
            if report is None
            else "The policy had already refused the model."
        )
        found.append(banner("warn", "Files not checked", why))
    else:
        found.append(banner("good", f"Every signed file is unchanged ({len(report.files)})"))
    found.append(_recomputed(certificate, recompute, is_trusted=bool(signers)))
    if not _private(certificate):
        found.insert(0, banner("bad", "This certificate guarantees no differential privacy"))
    return "".join(found)


def _signature(signers: Sequence[TrustedKey] | None, report: VerificationReport | None) -> str:
    if not signers:
        found = "Signature not checked" if signers is None else "Not signed by a trusted key"
        return banner("bad", found, "Anybody may have written what this page says.")
    unread = () if report else ("Whether key or certificate were revoked was not checked.",)
    return banner("good", "Signed by " + ", ".join(key.name for key in signers), *unread)


def _policy(report: VerificationReport | None) -> str:
    if report is None:
        return banner("warn", "Not checked against a policy", "Whether it is enough is not known.")
    failed = report.policy.failed
    if failed:
        return banner(
            "bad",
            f"Refused: {len(failed)} of {len(report.policy.rules)} rules of the policy failed",
            *(f"{rule.rule}: found {rule.found}, allowed {rule.allowed}" for rule in failed),
        )
    if any(rule.rule == "integrity only" for rule in report.policy.rules):
        return banner("warn", "Signature and files only: the policy demanded no privacy")
    return banner("good", f"Accepted: all {len(report.policy.rules)} rules of the policy passed")


def _recomputed(certificate: Certificate, mode: str | None, *, is_trusted: bool) -> str:
    if mode is None:
        why = (
            "The policy demanded no privacy. Run hushdoc inspect with --trust."
            if is_trusted
            else "No trusted key signed them, and whoever wrote them decides how much work that "
            "is. Run hushdoc inspect with --trust or --recompute."
        )
        return banner("warn", "The numbers were not recomputed", why)
    findings = certificate.recompute(mode)
    if not findings:
        return ""
    false = [item for item in findings if item.code is not None]
    if false:
        return banner(
            "bad",
            "The numbers do not follow from the declared mechanism",
            *(f"{item.code}: {item.message}" for item in false),
        )
    return banner(
        "good",
        "The numbers follow from the declared mechanism",
        f"Recomputed for this page ({mode}).",
        "That proves the arithmetic, not that training ran that way.",
    )


def _meaning(item: Guarantee) -> str:
    if item.epsilon is None or item.delta is None:
        return ""
    unit = UNIT_WORDS[item.unit]
    bounds = [(rate, hit_rate_bound(item.epsilon, item.delta, rate)) for rate in FALSE_ALARM_RATES]
    weak = any(bound > 0.95 for _, bound in bounds)
    return section(
        f"What epsilon {item.epsilon:g} means, per {unit}",
        figures(
            (
                (f"{item.epsilon:g}", "epsilon: smaller is stronger, 0 is perfect"),
                (f"{item.delta:g}", "delta: what epsilon does not cover"),
                (f"x {odds(item.epsilon)}", "largest change of any probability (e to the epsilon)"),
            )
        ),
        paragraph(guarantee_words(item)),
        f"<h3>The most {safe(unit)}s of the training data that an attacker can recognise</h3>",
        bars(
            (f"at 1 false alarm in {round(1 / rate):,}", bound, percent(bound))
            for rate, bound in bounds
        ),
        paragraph(
            "This is a bound on the worst case, against an attacker who knows everything else. "
            + (
                "Where it is nearly all of them, the numbers alone rule out next to nothing; known "
                "attacks usually achieve far less, but that is not proven."
                if weak
                else "Known attacks usually achieve less."
            ),
            style="soft",
        ),
        _chart(item),
        *(paragraph(words, style="soft") for words in comparison(item)),
    )


def _chart(item: Guarantee) -> str:
    if item.epsilon is None or item.delta is None:
        return ""
    drawn = profile_chart(item.profile, (item.epsilon, item.delta))
    return f"<h3>The same guarantee at other deltas</h3>\n{drawn}" if drawn else ""


def _foot(certificate: Certificate, payload_sha256: str | None) -> str:
    expiry = certificate.expires_at or "without end"
    digest = f" SHA-256 of it: <code>{safe(payload_sha256)}</code>." if payload_sha256 else ""
    return (
        f"<footer><p>Certificate <code>{safe(certificate.certificate_id)}</code>, valid from "
        f"{safe(certificate.issued_at)} to {safe(expiry)}. This page is a rendering; the signed "
        f"statement in the artifact is what counts.{digest}</p></footer>"
    )
