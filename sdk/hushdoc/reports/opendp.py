"""A certificate as entries of the registry of differential privacy deployments, in YAML.

The fields are those of the template of the OpenDP deployments registry as it stood in 2026 (basic,
dp_variant, privacy_loss, deployment_model, implementation, administrative). An entry has room for
one privacy unit and one set of numbers, so each guarantee becomes an entry of its own, in one file
with `---` between them. What a certificate does not hold, such as the region, stays empty. Epsilon
and delta are given as numbers only where differential privacy is guaranteed without condition for
every access to protected data and follows from the declared mechanism; anything else is given in
words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hushdoc.arguments import printable
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.explanation.guarantees import comparison, computed_by, guarantee_words
from hushdoc.explanation.measurements import audit_words, invitation_words
from hushdoc.explanation.mechanisms import mechanism_words
from hushdoc.explanation.terms import (
    ADJACENCY_PITFALLS,
    ADVERSARY_WORDS,
    AGGREGATION_WORDS,
    RELEASE_WORDS,
)
from hushdoc.reports.rendering import failures, is_whole, limits, notice, require_signed

Json = dict[str, Any]

_MARKDOWN = frozenset(r"\`*_{}[]<>$|~!&")
"""The registry renders every text as Markdown with formulas."""


def registry_entries(certificate: Certificate, *, payload_sha256: str) -> str:
    """Returns YAML of one entry for each guarantee; the same certificate gives the same text."""
    require_signed(certificate, payload_sha256)
    failed = failures(certificate)
    entries = (
        _Entry(
            certificate=certificate,
            guarantee=guarantee,
            failed=failed,
            failure=failed.get(index),
            notice=notice(payload_sha256),
        )
        for index, guarantee in enumerate(certificate.claim.guarantees)
    )
    return "---\n".join(f"# {entry.notice}\n{_warning(entry)}{_yaml(entry)}" for entry in entries)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One guarantee of a certificate, and what recomputation found against it or the others."""

    certificate: Certificate
    guarantee: Guarantee
    failed: Mapping[int, str]
    failure: str | None
    notice: str

    @property
    def claim(self) -> Claim:
        return self.certificate.claim

    @property
    def is_sound(self) -> bool:
        """Whether it holds without condition, follows from its mechanism and leaves nothing out."""
        proven = self.guarantee.kind == "dp" and self.failure is None
        return proven and is_whole(self.certificate, self.guarantee)


def _warning(entry: _Entry) -> str:
    if entry.failure is not None:
        return "# THE NUMBERS DO NOT FOLLOW FROM THE DECLARED MECHANISM. Do not submit this.\n"
    if entry.guarantee.kind == "dp-conditional":
        return "# DIFFERENTIAL PRIVACY ONLY ON A CONDITION: see privacy_parameters_details.\n"
    if entry.guarantee.kind != "dp":
        return "# NO DIFFERENTIAL PRIVACY IS GUARANTEED HERE. Do not submit this.\n"
    if not entry.is_sound:
        return (
            "# NOT FOR EVERY ACCESS TO PROTECTED DATA: see additional_information. Do not submit "
            "this.\n"
        )
    return ""


def _yaml(entry: _Entry) -> str:
    model, guarantee = entry.certificate.model, entry.guarantee
    content: Json = {
        "url_slug": _slug(f"{model.name} {model.version} {guarantee.adversary} {guarantee.unit}"),
        "deployment": {
            "basic": _basic(entry),
            "dp_variant": _variant(entry),
            "privacy_loss": _privacy_loss(entry),
            "deployment_model": _deployment_model(entry),
            "implementation": _implementation(entry),
            "administrative": {
                "evidence_sources": {},
                "status": "Draft",
                "registry_authors": [],
                "tier": 2 if entry.is_sound else 1,
            },
        },
    }
    return "".join(f"{line}\n" for line in _lines(content, ""))


def _basic(entry: _Entry) -> Json:
    model = entry.certificate.model
    issuer = printable(entry.certificate.issuer)
    return {
        "name": f"{printable(model.name)}, version {model.version}",
        "data_curators": [{"data_curator_name": issuer, "data_curator_type": None}],
        "description": f"A model for the task {model.task}. {entry.notice}",
        "intended_use": "",
        "data_product_type": "Machine learning model",
        "data_product_region": "",
        "data_product_sector": None,
        "publication_date": entry.certificate.issued_at[:10],
    }


def _variant(entry: _Entry) -> Json:
    name = "Pure DP" if entry.guarantee.delta == 0 else "Approximate DP"
    return {
        # Every value of the registry is a guarantee, so without one the field stays empty.
        "variant_name": name if entry.is_sound else None,
        "data_domain": "; ".join(
            f"{printable(data.name)} ({', '.join(unit.unit for unit in data.units)})"
            for data in entry.claim.protected_data
        ),
        "unprotected_quantities": _unprotected(entry.claim),
    }


def _unprotected(claim: Claim) -> str:
    """What was read or used outside of every guarantee."""
    found = [
        f"{printable(access.data)}, {printable(access.purpose)}: {access.treatment}"
        for access in claim.data_accesses
        if access.treatment in ("declared-public", "post-processing", "unaccounted")
    ]
    found += [
        f"{printable(data.name)}, used without a guarantee (overlap with protected data: "
        f"{data.overlap_with_protected})"
        for data in claim.public_data
    ]
    return "; ".join(found)


def _privacy_loss(entry: _Entry) -> Json:
    guarantee = entry.guarantee
    counts = [
        unit.count
        for data in entry.claim.protected_data
        for unit in data.units
        if unit.unit == guarantee.unit
    ]
    numbers = {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    return {
        "privacy_unit": guarantee.unit,
        "privacy_unit_details": f"{printable(guarantee.unit_definition)}; {guarantee.adjacency}: "
        f"{ADJACENCY_PITFALLS[guarantee.adjacency]}",
        "number_of_privacy_units": counts[0] if len(counts) == 1 else None,
        "privacy_parameters": numbers if entry.is_sound else {},
        "privacy_parameters_details": " ".join(_numbers(entry)),
    }


def _numbers(entry: _Entry) -> list[str]:
    guarantee = entry.guarantee
    if entry.failure is not None:
        return [entry.failure]
    found = [guarantee_words(guarantee)]
    if guarantee.kind in ("dp", "dp-conditional"):
        found += [computed_by(guarantee), *comparison(guarantee)]
        points = ", ".join(f"{epsilon:g} at {delta:g}" for epsilon, delta in guarantee.profile)
        found += [f"The same guarantee at other deltas: epsilon {points}."] if points else []
    return found


def _deployment_model(entry: _Entry) -> Json:
    guarantee = entry.guarantee
    released = "; ".join(RELEASE_WORDS[name] for name in entry.claim.releases)
    return {
        "model_name": "Central" if guarantee.aggregation == "central" else "Federated",
        "model_name_details": f"Of training they see {AGGREGATION_WORDS[guarantee.aggregation]}.",
        "trust_assumptions": "; ".join(printable(words) for words in guarantee.assumes),
        "actors": f"The adversary is {ADVERSARY_WORDS[guarantee.adversary]}. They observe: "
        f"{printable(guarantee.observes)}. They may know: {printable(guarantee.knows)}.",
        "release_type": None,
        "release_type_details": f"What left the training site: {released or 'not declared'}.",
        "data_source_type": None,
        "data_source_type_details": "",
        "access_type": "Non-interactive",
        "access_type_details": "",
    }


def _implementation(entry: _Entry) -> Json:
    guarantee = entry.guarantee
    return {
        "preprocessing_and_hyperparameter_tuning": _tuning(guarantee),
        "mechanisms": _mechanism(entry),
        "composition": printable(guarantee.composition),
        "post_processing": "; ".join(
            printable(step["step"]) for step in entry.certificate.derivation
        ),
        "justification": "",
        "utility": "; ".join(
            f"{key}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in sorted(entry.claim.utility.items())
        ),
        "additional_information": " ".join(_further(entry)),
    }


def _tuning(guarantee: Guarantee) -> str:
    chosen = f"Hyperparameter tuning: {guarantee.hyperparameter_tuning}."
    if guarantee.kind not in ("dp", "dp-conditional"):
        return f"{chosen} No guarantee covers an access to protected data."
    covered = "all" if guarantee.covers_all_private_accesses else "NOT all"
    return f"{chosen} Accesses to protected data are {covered} covered by the guarantee."


def _mechanism(entry: _Entry) -> str:
    guarantee = entry.guarantee
    if guarantee.transcript is None:
        return "None is declared."
    return (
        f"{mechanism_words(entry.claim.transcripts[guarantee.transcript])}. Batch sampling as "
        f"implemented: {guarantee.sampling_as_implemented}. Noise from: {guarantee.rng}; floating "
        f"point: {printable(guarantee.floating_point)}."
    )


def _further(entry: _Entry) -> list[str]:
    claim = entry.claim
    audits = [" ".join(audit_words(audit, claim.training)) for audit in claim.audits]
    audits = audits or ["none declared."]
    invited = [invitation_words(audit) for audit in claim.pre_registered_audits]
    return [
        f"Assurance: {entry.certificate.assurance}.",
        *limits(entry.certificate, entry.failed),
        *(f"Audit by the issuer: {words}" for words in audits),
        *(f"Invited audit: {words}" for words in invited),
    ]


def _slug(text: str) -> str:
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:120]


def _lines(value: Json, indent: str) -> Iterator[str]:
    """Nested objects as YAML; their values as JSON, which is YAML as well."""
    for key, item in value.items():
        if isinstance(item, dict) and item:
            yield f"{indent}{key}:"
            yield from _lines(item, indent + "  ")
        else:
            yield f"{indent}{key}: {_scalar(item)}"


def _scalar(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(_scalar(part) for part in item)}]"
    if isinstance(item, dict):
        return f"{{{', '.join(f'{key}: {_scalar(part)}' for key, part in item.items())}}}"
    if isinstance(item, str):
        return json.dumps(_literal(item), ensure_ascii=False)
    number = json.dumps(item)
    # Without a point YAML 1.1 reads an exponent as text.
    return re.sub(r"^(-?\d+)e", r"\1.0e", number)


def _literal(text: str) -> str:
    """Returns text in which nothing is Markdown, HTML or a formula, or steers a terminal."""
    safe = printable(text, limit=len(text))
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in safe)
