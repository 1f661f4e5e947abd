"""Attestation: the signed lines of an artifact, believed or refused before any other file is read.

The order is fixed: caps, envelope, signature, the statement from the very bytes that were signed,
then identity and time. The first line is the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from hushdoc import certificate as certificates
from hushdoc import folder, signing
from hushdoc.certificate import Certificate
from hushdoc.errors import CertificateError
from hushdoc.policy import Policy
from hushdoc.subjects import ENVELOPE_FILE, Subject
from hushdoc.trust import TrustedKey


@dataclass(frozen=True, kw_only=True)
class Attestation:
    """What trusted keys say about an artifact.

    Attributes:
        certificate: What was signed.
        subjects: The files it was signed about.
        signers: The trusted keys that signed; empty where the policy demands no signature.
    """

    certificate: Certificate
    subjects: tuple[Subject, ...]
    signers: tuple[TrustedKey, ...]


def read(descriptor: int, policy: Policy, *, now: datetime | None = None) -> Attestation:
    """Returns the certificate of an artifact whose signature, identity and time hold.

    Args:
        descriptor: Of the pinned folder.
        policy: The application's limits; its privacy rules are not checked here.
        now: The time, with its zone; the clock's by default.

    Raises:
        ArtifactError: The envelope file is a link or no regular file.
        CertificateError: The certificate is missing, malformed, unsigned, or for another model.
    """
    if not isinstance(policy, Policy):
        raise CertificateError(
            f"The policy is {type(policy).__name__}, expected a hushdoc.Policy. Say what the "
            "application accepts; Policy.integrity_only(trust) demands no privacy.",
            code="NO_POLICY",
        )
    line = read_lines(descriptor)[0]
    if policy.require_signature:
        verified = signing.verify(line, policy.trust, threshold=policy.threshold)
        payload, signers = verified.payload, verified.keys
    else:
        payload, signers = signing.read_envelope(line).payload, ()
    certificate, subjects = certificates.parse_statement(payload)
    if policy.require_signature:
        signing.require_authorised(signers, certificate.model.name, threshold=policy.threshold)
    certificates.require_valid(
        certificate,
        model=policy.model,
        min_version=policy.min_version,
        now=now or datetime.now(UTC),
    )
    return Attestation(certificate=certificate, subjects=subjects, signers=signers)


def read_lines(descriptor: int) -> tuple[bytes, ...]:
    """Returns the lines of the envelope file; the first is the certificate's.

    Args:
        descriptor: Of the pinned folder.

    Raises:
        ArtifactError: SYMLINK or NOT_REGULAR_FILE.
        CertificateError: MISSING_CERTIFICATE, CERT_TOO_LARGE or BAD_ENVELOPE.
    """
    content = folder.read_envelope_file(descriptor, signing.MAX_ENVELOPE_BYTES)
    if content is None:
        raise CertificateError(
            f"The artifact has no '{ENVELOPE_FILE}', so nothing is promised about it. Export it "
            "with a signing key, or ask its issuer for the certificate.",
            code="MISSING_CERTIFICATE",
        )
    if len(content) > signing.MAX_ENVELOPE_BYTES:
        raise CertificateError(
            f"'{ENVELOPE_FILE}' has more than {signing.MAX_ENVELOPE_BYTES} bytes. Refused unread; "
            "ask its issuer for a sound copy.",
            code="CERT_TOO_LARGE",
        )
    line = content.removesuffix(b"\n")
    if b"\n" in line:
        raise CertificateError(
            f"'{ENVELOPE_FILE}' holds several lines; this hushdoc reads one certificate. Update "
            "hushdoc, or ask its issuer for a sound copy.",
            code="BAD_ENVELOPE",
        )
    return (line,)
