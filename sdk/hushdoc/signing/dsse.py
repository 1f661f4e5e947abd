"""Signing: DSSE v1 envelopes, one JSON line each.

What is signed is the pre-authentication encoding of payload type and payload, so that neither
can be read as anything else: a revocation list never passes as a certificate, nor the other way
round. The algorithm comes from the trust store, never from the envelope; `cryptography` does the
maths.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import CertificateError, InputError, LimitExceededError, SignatureError
from hushdoc.serialization import strict_json
from hushdoc.signing.keys import PrivateKey, sign_message
from hushdoc.signing.trust_store import CERTIFICATE, TrustedKey, TrustStore, decode_base64

PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""Certificates and audits: in-toto statements, distinguished by their predicate type."""

MAX_ENVELOPE_BYTES = 512 * 1024
"""A statement of 256 KiB in base64, with its signatures."""

MAX_SIGNATURES = 16
"""Signatures on one envelope; each is tried, so a thousand would only cost time."""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Returns the pre-authentication encoding of DSSE v1: the very bytes that are signed."""
    encoded = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(encoded), encoded, len(payload), payload)


def sign(payload: bytes, private_key: PrivateKey, *, payload_type: str = PAYLOAD_TYPE) -> str:
    """Returns a DSSE v1 envelope as one line; the payload's type is signed as well."""
    unsigned = {
        "payload": base64.b64encode(payload).decode("ascii"),
        "payloadType": payload_type,
        "signatures": [],
    }
    return add_signature(strict_json.dumps(unsigned), private_key, payload_type=payload_type)


def add_signature(line: bytes, private_key: PrivateKey, *, payload_type: str = PAYLOAD_TYPE) -> str:
    """Returns the envelope with one more signature over the same payload, which is not read."""
    message = pae(payload_type, read_envelope(line, payload_type=payload_type).payload)
    return attach(
        line,
        TrustedKey.of(private_key),
        sign_message(message, private_key),
        payload_type=payload_type,
    )


def attach(
    line: bytes, key: TrustedKey, signature: bytes, *, payload_type: str = PAYLOAD_TYPE
) -> str:
    """Returns the envelope with a signature that was made elsewhere, once it has been verified.

    It must be the key's over `pae(payload_type, payload)`; the key's name, models and roles don't
    matter here.
    """
    data, envelope = _parsed(line, payload_type)
    message = pae(payload_type, envelope.payload)
    if len(envelope.signatures) >= MAX_SIGNATURES:
        raise LimitExceededError(
            f"The envelope has {len(envelope.signatures)} signatures, and readers take up to "
            f"{MAX_SIGNATURES}. Sign a copy with fewer."
        )
    if any(
        keyid == key.keyid or key.verifies(made, message) for keyid, made in envelope.signatures
    ):
        raise InputError(
            f"The key {key.keyid} has already signed this, and a key counts once. Sign with "
            "another one.",
            code="ALREADY_SIGNED",
        )
    if not key.verifies(signature, message):
        raise InputError(
            f"The signature of {len(signature)} bytes does not hold for this message under the "
            f"{key.algorithm} key {key.keyid}. Sign exactly the message that was written, with "
            "that key; a P-256 signature is expected in DER.",
            code="BAD_SIGNATURE",
        )
    data["signatures"].append({"keyid": key.keyid, "sig": base64.b64encode(signature).decode()})
    signed = strict_json.dumps(data)
    read_envelope(signed, payload_type=payload_type)
    return signed.decode("ascii")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """An envelope of which nothing is verified; the key id (or "") of a signature is a hint."""

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A payload, the very bytes that were signed, with the trusted keys that did; each once."""

    payload: bytes
    keys: tuple[TrustedKey, ...]


def read_envelope(content: bytes, *, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """Returns the envelope of one line, unverified; BAD_ENVELOPE or CERT_TOO_LARGE.

    Fields that DSSE does not name are ignored, as it demands.
    """
    return _parsed(content, payload_type)[1]


def _parsed(content: bytes, payload_type: str) -> tuple[dict[str, Any], Envelope]:
    def refuse(found: str) -> CertificateError:
        return CertificateError(
            f"The envelope {found}. Expected a DSSE v1 envelope of type {payload_type}; "
            "ask its issuer for a sound copy.",
            code="BAD_ENVELOPE",
        )

    data = strict_json.loads(
        content, what="The envelope", code="BAD_ENVELOPE", max_bytes=MAX_ENVELOPE_BYTES
    )
    if not isinstance(data, dict):
        raise refuse("is not an object")
    if data.get("payloadType") != payload_type:
        raise refuse(f"has the payload type {short_repr(data.get('payloadType'))}")
    if not isinstance(data.get("payload"), str):
        raise refuse("has no payload")
    listed = data.get("signatures")
    if not isinstance(listed, list) or len(listed) > MAX_SIGNATURES:
        raise refuse(f"has no list of up to {MAX_SIGNATURES} signatures")
    signatures = [_signature_from(item) for item in listed]
    if None in signatures:
        raise refuse("has a signature that is not an object with keyid and sig")
    payload = decode_base64(data["payload"], "The payload", code="BAD_ENVELOPE")
    return data, Envelope(payload=payload, signatures=tuple(filter(None, signatures)))


def _signature_from(data: Any) -> tuple[str, bytes] | None:
    keyid = data.get("keyid", "") if isinstance(data, dict) else None
    if not isinstance(keyid, str) or not isinstance(data.get("sig"), str):
        return None
    return keyid, decode_base64(data["sig"], "A signature", code="BAD_ENVELOPE")


def verify(
    content: bytes,
    trust: TrustStore,
    *,
    threshold: int = 1,
    payload_type: str = PAYLOAD_TYPE,
    role: str = CERTIFICATE,
) -> Verified:
    """Returns the payload of an envelope that at least `threshold` different trusted keys signed.

    Only signatures of keys with the role count; too few are NO_TRUSTED_KEYS or
    NO_TRUSTED_SIGNATURE.
    """
    if threshold < 1:
        raise ValueError(f"threshold is {threshold!r}; expected an integer from 1.")
    trusted = trust.with_role(role)
    if not trusted:
        raise SignatureError(
            f"The trust store has {len(trust.keys)} keys and none with the role {role}, so no "
            "such signature can be trusted. Add the issuer's key.",
            code="NO_TRUSTED_KEYS",
        )
    envelope = read_envelope(content, payload_type=payload_type)
    message = pae(payload_type, envelope.payload)
    signers = {
        key.keyid: key
        for keyid, signature in envelope.signatures
        for key in trusted
        if keyid in ("", key.keyid) and key.verifies(signature, message)
    }
    if len(signers) < threshold:
        named = ", ".join(printable(keyid, 16) for keyid, _ in envelope.signatures) or "none"
        raise SignatureError(
            f"{len(signers)} keys that are trusted with the role {role} signed this, expected "
            f"{threshold}. The envelope names the keys: {named}. Add the issuer's key to the trust "
            "store if you trust it; otherwise do not use what it signed.",
        )
    return Verified(payload=envelope.payload, keys=tuple(signers.values()))


def require_authorised(keys: tuple[TrustedKey, ...], model: str, *, threshold: int = 1) -> None:
    """Raises KEY_NOT_AUTHORISED_FOR_MODEL unless enough of the keys may sign for the model."""
    speaking = [key for key in keys if key.speaks_for(model)]
    if len(speaking) < threshold:
        allowed = sorted({name for key in keys for name in key.models})
        raise SignatureError(
            f"{len(speaking)} of the signing keys may sign for the model {short_repr(model)}, "
            f"expected {threshold}. The trust store lets them sign for: "
            f"{printable(', '.join(allowed))}.",
            code="KEY_NOT_AUTHORISED_FOR_MODEL",
        )
