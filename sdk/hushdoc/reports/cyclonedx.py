"""A certificate as a CycloneDX ML-BOM: one machine-learning model with its model card.

CycloneDX has no field for a privacy guarantee. Every one is written as properties under
`hushdoc:guarantee:`, and what it does not cover as limitations of the model, so that a reader who
knows nothing of those properties still sees the limits. The same certificate always gives the same
document; it carries no time of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from hushdoc import arguments
from hushdoc.arguments import printable
from hushdoc.certificate.audit_reports import Audit, AuditReport
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Guarantee, ProtectedData, PublicData
from hushdoc.certificate.subjects import ENVELOPE_FILE, Subject
from hushdoc.explanation.guarantees import comparison, guarantee_words
from hushdoc.explanation.measurements import WHAT_AUDITS_MEAN, audit_ceiling, audit_words
from hushdoc.explanation.terms import UNIT_WORDS
from hushdoc.reports.rendering import failures, is_whole, limits, notice, require_signed
from hushdoc.version import __version__

SPEC_VERSIONS = ("1.6", "1.7")
"""Versions of CycloneDX that can be written; for these fields they differ only in the number."""

Json = dict[str, Any]


def bill_of_materials(
    certificate: Certificate,
    subjects: Sequence[Subject],
    *,
    payload_sha256: str,
    spec_version: str = "1.6",
    audits: Sequence[AuditReport] = (),
) -> Json:
    """Returns the ML-BOM as plain data for JSON; `payload_sha256` is of the signed statement.

    `audits` are what auditors whom the reader trusts signed about the artifact.
    """
    arguments.choice(spec_version, SPEC_VERSIONS, what="spec_version")
    require_signed(certificate, payload_sha256)
    subjects = [
        arguments.instance(found, Subject, what=f"File {number}", advice="Pass Artifact.subjects.")
        for number, found in enumerate(
            arguments.each(subjects, what="What should be the signed files", of="subjects")
        )
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"hushdoc:{payload_sha256}")
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{spec_version}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": spec_version,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {
                        "type": "application",
                        "name": "hushdoc",
                        "version": __version__,
                    }
                ]
            },
            "component": _model(certificate, subjects, payload_sha256, audits),
            "properties": _properties(
                {
                    "hushdoc:rendering": notice(payload_sha256),
                    "hushdoc:payload:sha256": payload_sha256,
                }
            ),
        },
    }


def _model(
    certificate: Certificate,
    subjects: Sequence[Subject],
    payload_sha256: str,
    audits: Sequence[AuditReport],
) -> Json:
    model, failed = certificate.model, failures(certificate)
    entry = [subject for subject in subjects if subject.name == model.entry]
    return {
        "type": "machine-learning-model",
        "bom-ref": f"certificate-{certificate.certificate_id}",
        "publisher": printable(certificate.issuer),
        "name": printable(model.name),
        "version": str(model.version),
        "description": notice(payload_sha256),
        "hashes": [_hash(subject.sha256) for subject in entry],
        "externalReferences": [
            {
                "type": "attestation",
                "url": ENVELOPE_FILE,
                "comment": "DSSE envelopes, one a line; the first holds the privacy certificate. "
                f"SHA-256 of its signed payload: {payload_sha256}.",
            }
        ],
        "components": [_file(subject) for subject in subjects],
        "modelCard": _model_card(certificate, failed, audits),
        "properties": _certificate_properties(certificate, failed),
    }


def _file(subject: Subject) -> Json:
    return {
        "type": "file",
        "bom-ref": f"file-{subject.name}",
        "name": subject.name,
        "hashes": [_hash(subject.sha256)],
        "properties": _properties({"hushdoc:file:bytes": subject.size}),
    }


def _hash(sha256: str) -> Json:
    return {"alg": "SHA-256", "content": sha256}


def _model_card(
    certificate: Certificate, failed: Mapping[int, str], reports: Sequence[AuditReport]
) -> Json:
    claim = certificate.claim
    metrics = [
        *_utility(claim.utility),
        *(_audit(audit, "the issuer", claim.training) for audit in claim.audits),
        *(
            _audit(audit, f"{printable(report.auditor)}, {report.conducted_at}")
            for report in reports
            for audit in report.audits
        ),
    ]
    return {
        "modelParameters": {
            "task": certificate.model.task,
            "datasets": [
                *(_protected(data) for data in claim.protected_data),
                *(_public(data) for data in claim.public_data),
            ],
        },
        **({"quantitativeAnalysis": {"performanceMetrics": metrics}} if metrics else {}),
        "considerations": {
            "technicalLimitations": list(limits(certificate, failed)),
            "ethicalConsiderations": [
                _risk(item, failed.get(index)) for index, item in enumerate(claim.guarantees)
            ],
        },
    }


def _protected(data: ProtectedData) -> Json:
    units = [
        f"{unit.unit}: {'number not public' if unit.count is None else unit.count}"
        for unit in data.units
    ]
    return {
        "type": "dataset",
        "name": printable(data.name),
        "classification": "protected",
        "description": f"Units: {', '.join(units) or 'none declared'}. One unit contributes at "
        f"most: {printable(data.contribution_bound)}",
    }


def _public(data: PublicData) -> Json:
    return {
        "type": "dataset",
        "name": printable(data.name),
        "classification": "used without a privacy guarantee",
        "description": f"Used for {', '.join(printable(use) for use in data.uses)}; status: "
        f"{printable(data.privacy_status)}; overlap with protected data: "
        f"{data.overlap_with_protected}.",
    }


def _utility(utility: Mapping[str, Any]) -> list[Json]:
    return [
        {"type": f"as declared by the issuer: {printable(key, limit=200)}", "value": _text(value)}
        for key, value in sorted(utility.items())
    ]


def _audit(audit: Audit, by: str, training: object = None) -> Json:
    """An audit as a metric; it bounds epsilon from below only."""
    ceiling = audit_ceiling(audit, training)
    bound = {} if audit.epsilon_lower is None else {"lowerBound": f"{audit.epsilon_lower:g}"}
    return {
        "type": f"audit by {by}, lower bound of epsilon (can refute, never prove)",
        "value": " ".join([*audit_words(audit, training), WHAT_AUDITS_MEAN]),
        "slice": f"{audit.unit}, {audit.adversary}"
        + ("" if ceiling is None else f", could show at best {ceiling:.4g}"),
        **({"confidenceInterval": bound} if bound else {}),
    }


def _risk(guarantee: Guarantee, failure: str | None) -> Json:
    """A privacy risk with the guarantee against it, or with the reason why there is none."""
    return {
        "name": f"Somebody ({guarantee.adversary}) learns whether, or with what content, one "
        f"{UNIT_WORDS[guarantee.unit]} was used in training",
        "mitigationStrategy": failure or guarantee_words(guarantee),
    }


def _certificate_properties(certificate: Certificate, failed: Mapping[int, str]) -> list[Json]:
    claim = certificate.claim
    head = {
        "hushdoc:certificate:id": certificate.certificate_id,
        "hushdoc:certificate:issuedAt": certificate.issued_at,
        "hushdoc:certificate:expiresAt": certificate.expires_at,
        "hushdoc:certificate:assurance": certificate.assurance,
        "hushdoc:differentialPrivacyGuaranteed": _is_guaranteed(certificate, failed),
        "hushdoc:releases": ", ".join(claim.releases) or "none declared",
    }
    guarantees = (
        item
        for index, guarantee in enumerate(claim.guarantees)
        for item in _properties(
            _flat(f"hushdoc:guarantee:{index}", _facts(guarantee, failed.get(index)))
        )
    )
    invited = (
        item
        for index, audit in enumerate(claim.pre_registered_audits)
        for item in _properties(_flat(f"hushdoc:preRegisteredAudit:{index}", audit.to_dict()))
    )
    return [*_properties(head), *guarantees, *invited]


def _facts(guarantee: Guarantee, failure: str | None) -> dict[str, Any]:
    """Its fields; a measured number is named as one, never as a guarantee."""
    facts = guarantee.to_dict()
    facts.pop("gdpMu")
    if guarantee.kind == "empirical":
        for key in ("epsilon", "delta", "profile"):
            facts[f"measured{key.capitalize()}"] = facts.pop(key)
    return {**facts, "beside": " ".join(comparison(guarantee)) or None, "notReproduced": failure}


def _is_guaranteed(certificate: Certificate, failed: Mapping[int, str]) -> str:
    guarantees = enumerate(certificate.claim.guarantees)
    held = [item for index, item in guarantees if index not in failed]
    kinds = {item.kind for item in held}
    if any(item.kind == "dp" and is_whole(certificate, item) for item in held):
        return "yes, against the adversaries and for the units of the guarantees of kind dp"
    if "dp" in kinds:
        return "not for every access to protected data"
    return "only on a condition" if "dp-conditional" in kinds else "no"


def _flat(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested records as `prefix:key`; lists stay whole."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(f"{prefix}:{key}", value)
        else:
            found[f"{prefix}:{key}"] = value
    return found


def _properties(values: Mapping[str, Any]) -> list[Json]:
    """Properties of a component without those that are null."""
    return [
        {"name": name, "value": _text(value)} for name, value in values.items() if value is not None
    ]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text, limit=len(text))
