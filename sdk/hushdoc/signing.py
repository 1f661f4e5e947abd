"""Signing: Ed25519 keys and DSSE v1 envelopes, one JSON line each.

What is signed is the pre-authentication encoding of payload type and payload, so that neither
can be read as anything else. The algorithm comes from the trust store, never from the envelope;
`cryptography` does the maths.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc import files, strict_json
from hushdoc.errors import CertificateError, InputError, SignatureError
from hushdoc.trust import TrustedKey, TrustStore, decode_base64, key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "Envelope",
    "TrustStore",
    "TrustedKey",
    "Verified",
    "generate_key",
    "load_private_key",
    "pae",
    "public_key_of",
    "read_envelope",
    "require_authorised",
    "sign",
    "verify",
    "write_private_key",
]

PAYLOAD_TYPE = "application/vnd.in-toto+json"

MAX_ENVELOPE_BYTES = 512 * 1024
"""A statement of 256 KiB in base64, with its signatures."""

MAX_SIGNATURES = 16
"""Signatures on one envelope; each is tried, so a thousand would only cost time."""


def generate_key() -> Ed25519PrivateKey:
    """Returns a new private key from the operating system's randomness."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def write_private_key(private_key: Ed25519PrivateKey, path: Path) -> None:
    """Writes a private key that only its owner can read; an existing file is never replaced.

    Args:
        private_key: The key.
        path: Where it shall stand.

    Raises:
        OutputExistsError: Something stands there.
        OutputWriteError: The disk is full or not writable.
    """
    from cryptography.hazmat.primitives import serialization

    content = private_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    files.write_file(path, content, mode=0o600, overwrite=False)


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Returns the private key of a PKCS8 PEM file.

    Args:
        path: The file.

    Raises:
        InputError: BAD_KEY: it can't be read or is not an Ed25519 key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise _bad_key(path, str(problem)) from problem
    if not isinstance(key, Ed25519PrivateKey):
        raise _bad_key(path, f"found {type(key).__name__}")
    return key


def _bad_key(path: Path, found: str) -> InputError:
    return InputError(
        f"'{path}' is not a private signing key: {found}. Expected an unencrypted Ed25519 key in "
        "PEM; make one with `hushdoc keygen`.",
        code="BAD_KEY",
    )


def public_key_of(private_key: Ed25519PrivateKey) -> bytes:
    """Returns the 32 raw bytes of the public key."""
    return private_key.public_key().public_bytes_raw()


def pae(payload_type: str, payload: bytes) -> bytes:
    """Returns the pre-authentication encoding of DSSE v1: the very bytes that are signed.

    Example:
        >>> pae("http://example.com/HelloWorld", b"hello world")
        b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, private_key: Ed25519PrivateKey) -> str:
    """Returns a DSSE v1 envelope around an in-toto statement, as one JSON line without its end.

    Args:
        payload: The statement.
        private_key: Who says so.
    """
    envelope = {
        "payload": base64.b64encode(payload).decode("ascii"),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {
                "keyid": key_id(public_key_of(private_key)),
                "sig": base64.b64encode(private_key.sign(pae(PAYLOAD_TYPE, payload))).decode(),
            }
        ],
    }
    return strict_json.dumps(envelope).decode("ascii")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """An envelope as it was read. Nothing in it has been verified.

    Attributes:
        payload: The statement that somebody may have signed.
        signatures: (key id or "", signature) in their order; the key id is a hint.
    """

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A payload with the trusted keys that signed it.

    Attributes:
        payload: The very bytes that were signed.
        keys: Each once.
    """

    payload: bytes
    keys: tuple[TrustedKey, ...]


def read_envelope(content: bytes) -> Envelope:
    """Returns the envelope that one line holds, without verifying it.

    Fields that DSSE does not name are ignored, as it demands; nothing is read from them.

    Args:
        content: The line.

    Raises:
        CertificateError: BAD_ENVELOPE or CERT_TOO_LARGE.
    """
    data = strict_json.loads(
        content, what="The envelope", code="BAD_ENVELOPE", max_bytes=MAX_ENVELOPE_BYTES
    )
    if not isinstance(data, dict):
        raise _bad_envelope("is not an object")
    if data.get("payloadType") != PAYLOAD_TYPE:
        raise _bad_envelope(f"has the payload type {ascii(data.get('payloadType'))[:80]}")
    if not isinstance(data.get("payload"), str):
        raise _bad_envelope("has no payload")
    listed = data.get("signatures")
    if not isinstance(listed, list) or len(listed) > MAX_SIGNATURES:
        raise _bad_envelope(f"has no list of up to {MAX_SIGNATURES} signatures")
    return Envelope(
        payload=decode_base64(data["payload"], "The payload", code="BAD_ENVELOPE"),
        signatures=tuple(_signature_from(item) for item in listed),
    )


def _signature_from(data: Any) -> tuple[str, bytes]:
    keyid = data.get("keyid", "") if isinstance(data, dict) else None
    if not isinstance(keyid, str) or not isinstance(data.get("sig"), str):
        raise _bad_envelope("has a signature that is not an object with keyid and sig")
    return keyid, decode_base64(data["sig"], "A signature", code="BAD_ENVELOPE")


def _bad_envelope(found: str) -> CertificateError:
    return CertificateError(
        f"The envelope {found}. Expected a DSSE v1 envelope of type {PAYLOAD_TYPE}; "
        "ask its issuer for a sound copy.",
        code="BAD_ENVELOPE",
    )


def verify(content: bytes, trust: TrustStore, *, threshold: int = 1) -> Verified:
    """Returns the payload of an envelope that enough trusted keys signed.

    Args:
        content: One line of an envelope file.
        trust: The keys the application believes.
        threshold: How many different keys must have signed.

    Raises:
        CertificateError: BAD_ENVELOPE or CERT_TOO_LARGE.
        SignatureError: NO_TRUSTED_KEYS or NO_TRUSTED_SIGNATURE.
        ValueError: The threshold is below 1.
    """
    if threshold < 1:
        raise ValueError(f"threshold is {threshold!r}; expected a whole number from 1.")
    if not trust.keys:
        raise SignatureError(
            "The trust store is empty, so no signature can be believed. Add the issuer's key.",
            code="NO_TRUSTED_KEYS",
        )
    envelope = read_envelope(content)
    message = pae(PAYLOAD_TYPE, envelope.payload)
    signers = {
        key.keyid: key
        for keyid, signature in envelope.signatures
        for key in trust.keys
        if keyid in ("", key.keyid) and _holds(key, signature, message)
    }
    if len(signers) < threshold:
        named = ", ".join(ascii(keyid)[1:17] for keyid, _ in envelope.signatures) or "none"
        raise SignatureError(
            f"{len(signers)} trusted keys signed this certificate, expected {threshold}. The "
            f"envelope names the keys: {named}. Add the issuer's key to the trust store if you "
            "believe it; otherwise do not use this model.",
        )
    return Verified(payload=envelope.payload, keys=tuple(signers.values()))


def require_authorised(keys: tuple[TrustedKey, ...], model: str, *, threshold: int = 1) -> None:
    """Raises unless enough of these keys may speak for the model.

    Raises:
        SignatureError: KEY_NOT_AUTHORISED_FOR_MODEL.
    """
    speaking = [key for key in keys if key.speaks_for(model)]
    if len(speaking) < threshold:
        raise SignatureError(
            f"{len(speaking)} of the signing keys may speak for the model {ascii(model)[:80]}, "
            f"expected {threshold}. The trust store lets them sign for: "
            f"{', '.join(sorted({name for key in keys for name in key.models}))}.",
            code="KEY_NOT_AUTHORISED_FOR_MODEL",
        )


def _holds(key: TrustedKey, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key.public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True
