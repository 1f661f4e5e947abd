"""Attestation: the signed lines of an artifact, checked before any other file is read.

The order is fixed: caps, envelope, signature, the statement from the very bytes that were signed,
then identity, time and revocation. The first line is the certificate. Further lines are audits by
others, each bound to the certificate by its digest; one that no trusted auditor signed proves
nothing, so it is counted and not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hushdoc.artifact import folder
from hushdoc.artifact.directory_handle import DirectoryHandle
from hushdoc.certificate import audit_reports as audits
from hushdoc.certificate import certificate as certificates
from hushdoc.certificate import statement
from hushdoc.certificate.audit_reports import MAX_AUDIT_BYTES, MAX_AUDITS, AuditReport
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.subjects import ENVELOPE_FILE, Subject
from hushdoc.errors import CertificateError, SignatureError
from hushdoc.policy.policy import Policy
from hushdoc.signing import dsse, revocation
from hushdoc.signing.revocation import RevocationList
from hushdoc.signing.trust_store import AUDIT, TrustedKey, TrustStore

_MAX_FILE_BYTES = dsse.MAX_ENVELOPE_BYTES + MAX_AUDITS * (MAX_AUDIT_BYTES + 1) + 1

_TRAINED = ("checkpoint.json", "checkpoint", "run.json")
"""One of these is in what training writes, and none in an artifact."""


@dataclass(frozen=True, kw_only=True)
class Attestation:
    """What trusted keys signed about an artifact; `digest` is that of the payload, in hexadecimal.

    Without a demand for signatures there are no `signers`. Of `untrusted_audits`, lines that no
    trusted auditor signed, nothing was read.
    """

    certificate: Certificate
    digest: str
    subjects: tuple[Subject, ...]
    signers: tuple[TrustedKey, ...]
    lines: tuple[bytes, ...]
    audits: tuple[AuditReport, ...] = ()
    untrusted_audits: int = 0


def read(directory: DirectoryHandle, policy: Policy, *, now: datetime | None = None) -> Attestation:
    """Returns a certificate whose signature, identity and time hold; no privacy is checked here."""
    return checked(lambda: read_lines(directory), policy, now=now)


def checked(
    lines: Callable[[], tuple[bytes, ...]], policy: Policy, *, now: datetime | None = None
) -> Attestation:
    """Returns as `read` does the certificate in lines, which are read once there is a policy."""
    if not isinstance(policy, Policy):
        raise CertificateError(
            f"The policy is {type(policy).__name__}, expected a hushdoc.Policy. Say what the "
            "application accepts; Policy.integrity_only(trust) demands no privacy.",
            code="NO_POLICY",
        )
    now = now or datetime.now(UTC)
    line, *further = found = lines()
    if policy.require_signature:
        verified = dsse.verify(line, policy.trust, threshold=policy.threshold)
        payload, signers = verified.payload, verified.keys
    else:
        payload, signers = dsse.read_envelope(line).payload, ()
    certificate, subjects = statement.parse_statement(payload)
    if policy.require_signature:
        dsse.require_authorised(signers, certificate.model.name, threshold=policy.threshold)
    _require_valid(certificate, policy, now)
    revoked = _revocations(policy, certificate.model.name, now)
    signers = _not_revoked(certificate, signers, revoked, policy)
    digest = hashlib.sha256(payload).hexdigest()
    trusted = _audits(further, certificate, digest, _auditors(policy.trust, revoked))
    return Attestation(
        certificate=certificate,
        digest=digest,
        subjects=subjects,
        signers=signers,
        audits=trusted,
        untrusted_audits=len(further) - len(trusted),
        lines=found,
    )


def read_lines(directory: DirectoryHandle) -> tuple[bytes, ...]:
    """Returns the lines of the envelope file, within the caps; the first is the certificate's."""
    content = folder.read_envelope_file(directory, _MAX_FILE_BYTES)
    if content is None:
        raise _missing(directory)
    lines = tuple(content.removesuffix(b"\n").split(b"\n"))
    oversized = len(lines[0]) > dsse.MAX_ENVELOPE_BYTES or any(
        len(line) > MAX_AUDIT_BYTES for line in lines[1:]
    )
    if len(content) > _MAX_FILE_BYTES or oversized:
        raise CertificateError(
            f"'{ENVELOPE_FILE}' holds a line of more than {dsse.MAX_ENVELOPE_BYTES} bytes, or "
            f"an audit of more than {MAX_AUDIT_BYTES}. Refused unread; ask its issuer for a sound "
            "copy.",
            code="CERT_TOO_LARGE",
        )
    if len(lines) > 1 + MAX_AUDITS:
        raise CertificateError(
            f"'{ENVELOPE_FILE}' holds {len(lines)} lines, expected a certificate and up to "
            f"{MAX_AUDITS} audits. Ask its issuer for a sound copy.",
            code="BAD_ENVELOPE",
        )
    return lines


def _missing(directory: DirectoryHandle) -> CertificateError:
    if folder.contains_any(directory, _TRAINED):
        what = (
            "The folder is what `hushdoc train` wrote, and no artifact: it has no "
            f"'{ENVELOPE_FILE}'. Run `hushdoc export FOLDER --out ARTIFACT --key KEY`."
        )
    else:
        what = (
            f"The artifact has no '{ENVELOPE_FILE}', so no privacy guarantee is declared for it. "
            "Export it with a signing key, or ask its issuer for the certificate."
        )
    return CertificateError(what, code="MISSING_CERTIFICATE")


def _require_valid(certificate: Certificate, policy: Policy, now: datetime) -> None:
    days = policy.max_age_days
    certificates.require_valid(
        certificate,
        model=policy.model,
        min_version=policy.min_version,
        now=now,
        max_age=None if days is None else timedelta(days=days),
    )


def _revocations(policy: Policy, model: str, now: datetime) -> RevocationList | None:
    if policy.revocations is None:
        return None
    content = revocation.list_content(policy.revocations)
    # A list that was seen and is gone hides what it revoked, as an older one would.
    seen = revocation.newest_seen(policy.trust)
    if content is None and policy.revocation == "if-present" and not seen:
        return None
    return revocation.read_list(content, policy.trust, now=now, model=model)


def _not_revoked(
    certificate: Certificate,
    signers: tuple[TrustedKey, ...],
    revoked: RevocationList | None,
    policy: Policy,
) -> tuple[TrustedKey, ...]:
    """The signers that are left; they must still be enough, and may still speak for the model."""
    if revoked is None:
        return signers
    threshold = policy.threshold if policy.require_signature else 0
    left = revocation.require_not_revoked(
        certificate.certificate_id,
        signers,
        revoked,
        threshold=threshold,
        made_from=certificate.made_from,
    )
    if policy.require_signature:
        dsse.require_authorised(left, certificate.model.name, threshold=threshold)
    return left


def _auditors(trust: TrustStore, revoked: RevocationList | None) -> TrustStore:
    keys = trust.keys if revoked is None else revocation.unrevoked(trust.keys, revoked)
    return TrustStore.of(key for key in keys if AUDIT in key.roles)


def _audits(
    lines: Sequence[bytes], certificate: Certificate, digest: str, auditors: TrustStore
) -> tuple[AuditReport, ...]:
    """The reports of auditors that are trusted for this model; every envelope must be sound."""
    trusted = []
    for line in lines:
        dsse.read_envelope(line)
        if not auditors.keys:
            continue
        try:
            verified = dsse.verify(line, auditors, role=AUDIT)
            dsse.require_authorised(verified.keys, certificate.model.name)
        except SignatureError:
            continue
        trusted.append(_report(verified.payload, certificate, digest))
    return tuple(trusted)


def _report(payload: bytes, certificate: Certificate, digest: str) -> AuditReport:
    report = audits.parse_audit_statement(payload, digest)
    if report.certificate_id != certificate.certificate_id:
        raise CertificateError(
            f"An audit names the certificate {report.certificate_id} and the digest of "
            f"{certificate.certificate_id}. Fetch the artifact again.",
            code="BAD_SUBJECT",
        )
    return report
