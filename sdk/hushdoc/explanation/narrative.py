"""A whole certificate in plain words for a privacy officer: guarantees, limits, audits, caveats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hushdoc.arguments import printable
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.explanation.guarantees import foundations, guarantee_words, meaning
from hushdoc.explanation.limits import not_guaranteed
from hushdoc.explanation.measurements import WHAT_AUDITS_MEAN, audit_lines, invitation_words
from hushdoc.explanation.terms import ASSURANCE_WORDS, RELEASE_WORDS

_HEADINGS = {
    "empirical": "MEASURED, NOT PROVEN",
    "dp": "GUARANTEES",
    "dp-conditional": "CONDITIONAL GUARANTEES",
}


def explain(certificate: Certificate) -> str:
    """Returns in plain words what is guaranteed, to whom, and what is not.

    Args:
        certificate: From `Certificate.from_dict`, or of a loaded model.
    """
    model = certificate.model
    head = (
        f"Certificate {certificate.certificate_id} for the model {printable(model.name)}, version "
        f"{model.version} ({model.task}).\n"
        f"Issued {certificate.issued_at} by {printable(certificate.issuer)}; "
        f"{ASSURANCE_WORDS[certificate.assurance]}\n"
    )
    if certificate.expires_at is not None:
        head += f"It expires {certificate.expires_at}.\n"
    return head + "\n" + explain_claim(certificate.claim, certificate.derivation)


def explain_claim(claim: Claim, derivation: Iterable[Mapping[str, Any]] = ()) -> str:
    """Returns the claim in plain words: kind none first, then guarantees, then limits.

    `derivation` has the steps since training; a claim that nobody exported yet has none.
    """
    none = [item for item in claim.guarantees if item.kind == "none"]
    lines = _titled("NO GUARANTEE", (f"  - {guarantee_words(item)}" for item in none))
    for kind, heading in _HEADINGS.items():
        items = [item for item in claim.guarantees if item.kind == kind]
        lines += _titled(heading, _guarantees(items))
    limits = not_guaranteed(claim, derivation)
    lines += _titled("NOT GUARANTEED", (f"  - {words}" for words in limits))
    lines += _titled("RELEASED FROM TRAINING", _releases(claim))
    lines += _titled("AUDITS BY THE ISSUER", _audits(claim))
    invited = (f"  - {invitation_words(audit)}" for audit in claim.pre_registered_audits)
    lines += _titled("PRE-REGISTERED AUDITS, OPEN TO ANYBODY", invited)
    caveats = (f"  - {printable(words)}" for words in claim.caveats)
    lines += _titled("CAVEATS", caveats)
    return "\n".join(lines).rstrip() + "\n"


def _titled(heading: str, lines: Iterable[str]) -> list[str]:
    """A heading with its lines and an empty one; nothing where there is no line."""
    found = list(lines)
    return [heading, *found, ""] if found else []


def _guarantees(items: list[Guarantee]) -> list[str]:
    """Guarantees of one kind; what several of them all assume stands once, after them."""
    shared = [
        words
        for words in (items[0].assumes if len(items) > 1 else ())
        if all(words in item.assumes for item in items)
    ]
    found = []
    for item in items:
        own = tuple(words for words in item.assumes if words not in shared)
        found += _guarantee(replace(item, assumes=own))
    return [*found, *(f"  - All of these assume: {printable(words)}" for words in shared)]


def _guarantee(item: Guarantee) -> list[str]:
    further = (*meaning(item), *foundations(item))
    return [f"  - {guarantee_words(item)}", *(f"      {words}" for words in further)]


def _releases(claim: Claim) -> list[str]:
    named = [f"  - {RELEASE_WORDS[name]}" for name in claim.releases]
    return named or ["  - No release is declared."]


def _audits(claim: Claim) -> list[str]:
    if not claim.audits:
        return ["  - No audit is declared. None was run, or its result was withheld."]
    return [*audit_lines(claim.audits, claim.training), f"  - {WHAT_AUDITS_MEAN}"]
