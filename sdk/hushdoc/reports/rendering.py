"""What every rendering says about itself: where it comes from, and what does not hold in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hushdoc import arguments
from hushdoc.arguments import printable, short_repr
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.errors import InputError
from hushdoc.explanation import not_promised


def notice(payload_sha256: str) -> str:
    """Returns the sentence that keeps a rendering from being taken for the certificate.

    Args:
        payload_sha256: Digest of the signed statement, 64 hexadecimal digits.
    """
    return (
        f"Unsigned rendering of the signed statement in {ENVELOPE_FILE} (SHA-256 of its payload "
        f"{payload_sha256}). It promises nothing itself, and signature and files were not checked "
        "for it; hushdoc verify checks them."
    )


def require_told(certificate: object, payload_sha256: object) -> None:
    """Raises unless there are a certificate and the digest of what was signed.

    Raises:
        InputError: One of them is none.
    """
    advice = "Take it from a verified artifact: Artifact.certificate."
    arguments.instance(certificate, Certificate, what="The certificate", advice=advice)
    digest = arguments.text(payload_sha256, what="The digest of the signed statement")
    if re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise InputError(
            f"The digest of the signed statement is {short_repr(digest)}; expected 64 hexadecimal "
            "digits in small letters. Pass SHA-256 of the envelope's payload."
        )


def failures(certificate: Certificate) -> Mapping[int, str]:
    """Returns why guarantees, by their number, do not follow from their own transcripts."""
    return {
        finding.index: f"Guarantee {finding.index} does NOT follow from its own transcript "
        f"({finding.code}): {printable(finding.message)}. Do not rely on it."
        for finding in certificate.recompute()
        if finding.code is not None
    }


def limits(claim: Claim, failed: Mapping[int, str]) -> tuple[str, ...]:
    """Returns what holds against a claim: false arithmetic first, then its own limits.

    Args:
        claim: What is said.
        failed: What `failures` found.
    """
    caveats = (printable(words) for words in claim.caveats)
    return (*failed.values(), *not_promised(claim), *caveats)
