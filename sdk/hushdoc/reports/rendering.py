"""What every export of a certificate has in common: its source, false arithmetic, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hushdoc import arguments
from hushdoc.arguments import printable, short_repr
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Guarantee
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.errors import InputError
from hushdoc.explanation.limits import not_guaranteed


def notice(payload_sha256: str) -> str:
    """Returns the sentence that keeps a rendering from being mistaken for the certificate."""
    return (
        f"Unsigned rendering of the signed statement in {ENVELOPE_FILE} (SHA-256 of its payload "
        f"{payload_sha256}). It proves nothing itself, and signature and files were not checked "
        "for it; hushdoc verify checks them."
    )


def require_signed(certificate: object, payload_sha256: object) -> None:
    """Raises InputError unless these are a certificate and the digest of what was signed."""
    advice = "Take it from a verified artifact: Artifact.certificate."
    arguments.instance(certificate, Certificate, what="The certificate", advice=advice)
    digest = arguments.text(payload_sha256, what="The digest of the signed statement")
    if re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise InputError(
            f"The digest of the signed statement is {short_repr(digest)}; expected 64 hexadecimal "
            "digits in lower case. Pass the SHA-256 of the envelope's payload."
        )


def failures(certificate: Certificate) -> Mapping[int, str]:
    """Returns by their index the guarantees that do not follow from their transcripts, and why."""
    return {
        finding.index: f"Guarantee {finding.index} does NOT follow from its own transcript "
        f"({finding.code}): {printable(finding.message)}. Do not rely on it."
        for finding in certificate.recompute()
        if finding.code is not None
    }


def is_whole(certificate: Certificate, guarantee: Guarantee) -> bool:
    """Returns whether nothing that read protected data is outside of a guarantee, as it says."""
    return (
        guarantee.covers_all_private_accesses
        and not any(step["dataDependent"] for step in certificate.derivation)
        and not any(it.treatment == "unaccounted" for it in certificate.claim.data_accesses)
    )


def limits(certificate: Certificate, failed: Mapping[int, str]) -> tuple[str, ...]:
    """Returns the limits of a certificate: the `failures` of its arithmetic first, then its own."""
    claim = certificate.claim
    caveats = (printable(words) for words in claim.caveats)
    return (*failed.values(), *not_guaranteed(claim, certificate.derivation), *caveats)
