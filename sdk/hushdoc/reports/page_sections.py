"""Sections of the certificate's page: adversaries, data, mechanism, rules, signed files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hushdoc.accounting import mechanism
from hushdoc.arguments import printable
from hushdoc.certificate import vocabulary
from hushdoc.certificate.claim import WATCHES_TRAINING, Guarantee
from hushdoc.explanation.guarantees import comparison, computed_by, is_covered
from hushdoc.explanation.mechanisms import mechanism_words
from hushdoc.explanation.terms import (
    ADJACENCY_PITFALLS,
    ADVERSARY_WORDS,
    AGGREGATION_WORDS,
    CLUSTER_SAMPLING_WORDS,
    RELEASE_WORDS,
    UNIT_WORDS,
)
from hushdoc.viewing.markup import Cell, block, bullets, paragraph, section, table

if TYPE_CHECKING:
    from hushdoc.artifact.artifact import VerificationReport
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.certificate.subjects import Subject
    from hushdoc.signing.trust_store import TrustedKey

_TREATMENT_WORDS = {
    "accounted": "covered by the guarantee",
    "declared-public": "its result was declared public",
    "not-released": "its result was not released",
    "post-processing": "it read only what was already released",
    "unaccounted": "OUTSIDE of every guarantee",
}
_TREATMENT_COLOURS = {
    "declared-public": "warn",
    "post-processing": "warn",
    "unaccounted": "bad",
}


def against_whom(certificate: Certificate) -> str:
    """Returns a row for each guarantee and each adversary without one, then their foundations."""
    rows: list[Sequence[str | Cell]] = []
    for adversary in vocabulary.ADVERSARIES:
        items = [item for item in certificate.claim.guarantees if item.adversary == adversary]
        rows += [_guarantee_row(item) for item in items]
        if not items and is_covered(adversary, certificate.claim):
            words = "the same: answers are computed from the model"
            rows.append((ADVERSARY_WORDS[adversary], "-", Cell("good", words), "-", "-"))
        elif not items:
            rows.append((ADVERSARY_WORDS[adversary], "-", Cell("bad", "none"), "-", "-"))
    details = [
        block("\n".join(_detail(item)))
        for item in certificate.claim.guarantees
        if item.kind != "none"
    ]
    return section(
        "Against whom",
        table(("against", "unit", "guarantee", "epsilon", "delta"), rows),
        "<h3>What the guarantees rest on</h3>" if details else "",
        *details,
    )


def _guarantee_row(item: Guarantee) -> Sequence[str | Cell]:
    kinds = {
        "dp": Cell("good", "differential privacy"),
        "dp-conditional": Cell("warn", "differential privacy, on a condition"),
        "empirical": Cell("bad", "none: measured, not proven"),
        "none": Cell("bad", "none"),
    }
    measured = "measured " if item.kind == "empirical" else ""
    return (
        ADVERSARY_WORDS[item.adversary],
        UNIT_WORDS[item.unit],
        kinds[item.kind],
        "-" if item.epsilon is None else f"{measured}{item.epsilon:g}",
        "-" if item.delta is None else f"{measured}{item.delta:g}",
    )


def _detail(item: Guarantee) -> list[str]:
    watches = item.adversary in WATCHES_TRAINING
    clusters = item.cluster_sampling_as_implemented
    facts = {
        "against": f"{item.adversary}, who observes {item.observes} and knows {item.knows}",
        **({"sees": f"of training: {AGGREGATION_WORDS[item.aggregation]}"} if watches else {}),
        "one unit": f"{item.unit}: {item.unit_definition}",
        "neighbours": f"{item.adjacency}. {ADJACENCY_PITFALLS[item.adjacency]}",
        "accountant": f"{item.accountant.name}. {computed_by(item)}",
        "composition": item.composition,
        "all accesses": "covered" if item.covers_all_private_accesses else "NOT all covered",
        "sampling": item.sampling_as_implemented,
        **({} if clusters == "none" else {"clusters": CLUSTER_SAMPLING_WORDS[clusters]}),
        "tuning": item.hyperparameter_tuning,
        "noise from": f"{item.rng}; {item.floating_point}",
    }
    if item.audit_lower_bound is not None:
        facts["own audits"] = f"show that epsilon is at least {item.audit_lower_bound:g}"
    named = [*facts.items(), *(("beside", words) for words in comparison(item))]
    named += [("assumes", words) for words in item.assumes]
    # A text of several lines would imitate facts that the certificate does not hold.
    return [f"{name + ':':<14}{printable(words, limit=len(words))}" for name, words in named]


def data(certificate: Certificate) -> str:
    """Returns which data were read, what for, and which accesses a guarantee covers."""
    claim = certificate.claim
    protected = [
        (data.name, f"{unit.unit}: {_count(unit.count)}", data.contribution_bound)
        for data in claim.protected_data
        for unit in data.units
    ]
    public = [
        (
            data.name,
            ", ".join(data.uses),
            data.privacy_status,
            Cell("good", "none")
            if data.overlap_with_protected == "none"
            else Cell("warn", data.overlap_with_protected),
        )
        for data in claim.public_data
    ]
    accesses = [
        (
            access.data,
            access.purpose,
            Cell(_TREATMENT_COLOURS.get(access.treatment, "good"), treatment),
        )
        for access in claim.data_accesses
        for treatment in (_TREATMENT_WORDS[access.treatment],)
    ]
    return section(
        "Which data were used",
        "<h3>Protected</h3>",
        table(("data", "how many", "what one unit can contribute"), protected)
        or paragraph("None is declared."),
        "<h3>Every access to them</h3>",
        table(("data", "what for", "treatment"), accesses) or paragraph("None is declared."),
        "<h3>Used without any guarantee</h3>",
        table(("data", "what for", "status", "overlap with protected data"), public)
        or paragraph("None is declared."),
        "<h3>Released from training</h3>",
        bullets(RELEASE_WORDS[name] for name in claim.releases) or paragraph("None is declared."),
    )


def _count(count: int | None) -> str:
    return "not public" if count is None else str(count)


def transcripts(certificate: Certificate) -> str:
    """Returns the mechanisms in words and as the certificate holds them."""
    parts = []
    for name, transcript in certificate.claim.transcripts.items():
        parts.append(paragraph(f"{name}: {mechanism_words(transcript)}."))
        parts.append(block(json.dumps(mechanism.to_dict(transcript), indent=2)))
    if not parts:
        return ""
    return section(
        "The mechanism, and how to recompute the numbers",
        *parts,
        paragraph(
            "Anybody can recompute epsilon from this alone, with hushdoc verify or with any "
            "accountant that knows these mechanisms.",
            style="soft",
        ),
    )


def rules(report: VerificationReport | None) -> str:
    """Returns every rule of the policy; nothing where there was no policy."""
    if report is None:
        return ""
    rows = [
        (
            Cell("good", "passed") if rule.passed else Cell("bad", rule.code),
            rule.rule,
            rule.found,
            rule.allowed,
        )
        for rule in report.policy.rules
    ]
    return section("Every rule of the policy", table(("", "rule", "found", "allowed"), rows))


def notes(title: str, values: Mapping[str, Any]) -> str:
    """Returns what the issuer noted for people, unchanged."""
    rows = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]
    return section(title, table(("what", "value"), rows))


def origin(
    certificate: Certificate, subjects: Sequence[Subject], signers: Sequence[TrustedKey] | None
) -> str:
    """Returns who signed, which files, and what was done to the weights since training."""
    keys = [(key.name, Cell("code", key.keyid)) for key in signers or ()]
    steps = [
        (str(step["step"]), Cell("bad", "yes") if step["dataDependent"] else Cell("good", "no"))
        for step in certificate.derivation
    ]
    files = [
        (subject.name, f"{subject.size:,}", Cell("code", subject.sha256)) for subject in subjects
    ]
    return section(
        "Signer, files and origin",
        table(("signed by", "key id"), keys) or paragraph("No trusted signature was found."),
        "<h3>Signed files</h3>",
        table(("file", "bytes", "SHA-256"), files),
        "<h3>Steps since training</h3>" if steps else "",
        table(("step", "read protected data"), steps),
    )
