"""Keys: the two algorithms that sign, and their keys as files and raw bytes.

Ed25519 is the usual one; ECDSA on P-256 is what key services offer. A key has one canonical
encoding, so that it has one id, and a signature has one encoding as bytes. A signature identifies
nothing, though: the ECDSA signature (r, s) has the twin (r, n - s), which is valid as well and is
accepted, because key services return either. So nothing may ever be counted, found or remembered
by its signature; keys are, and each counts once.

Checking Ed25519, all that most installations do, needs only PyNaCl. Private keys and P-256 are left
to `cryptography`, which the extra `keys` brings.
"""

from __future__ import annotations

import binascii
import errno
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hushdoc.errors import InputError, needs_extra
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAX_KEY_BYTES = 64 * 1024
"""A key file is never larger."""

PrivateKey: TypeAlias = "Ed25519PrivateKey | EllipticCurvePrivateKey"
"""A private key of `cryptography`, of one of ALGORITHMS."""

ED25519 = "ed25519"
ECDSA_P256 = "ecdsa-p256"
ALGORITHMS = (ED25519, ECDSA_P256)
"""RFC 8032; and FIPS 186-5 on P-256 with SHA-256, its signatures in canonical DER."""

_PUBLIC_PEM = re.compile(
    rb"\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*"
)
_ENCRYPTED = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED", re.M)
"""Either of the two ways in which PEM says that a key is encrypted."""

_ED25519_DER = bytes.fromhex("302a300506032b6570032100")
"""Prefix of the 32 bytes of an Ed25519 key (RFC 8410)."""

_PRIME = 2**255 - 19
_CURVE_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
# The y of a point of order eight; the other is its negative (RFC 8032 section 5.1 has the curve).
_ORDER_EIGHT_Y = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
_SMALL_ORDER_Y = frozenset({0, 1, _PRIME - 1, _ORDER_EIGHT_Y, _PRIME - _ORDER_EIGHT_Y})

# y^2 = x^3 - 3 x + b over this prime (SP 800-186 section 3.2.1.3). The curve's order is prime, so
# no point but infinity, which has no coordinates, is of small order.
_P256_PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
_P256_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


def generate_key(algorithm: str = ED25519) -> PrivateKey:
    """Returns a new private key of one of ALGORITHMS from the operating system's randomness."""
    with needs_extra("cryptography", "keys"):
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if algorithm == ED25519:
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == ECDSA_P256:
        return ec.generate_private_key(ec.SECP256R1())
    raise ValueError(f"algorithm is {algorithm!r}; expected one of {ALGORITHMS}.")


def write_private_key(
    private_key: PrivateKey, path: Path, *, passphrase: str | None = None
) -> None:
    """Writes a private key that only its owner can read; an existing file is never replaced.

    A passphrase encrypts it, as OpenSSL reads it too.
    """
    from cryptography.hazmat.primitives import serialization  # the key is one of its own

    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase.encode("utf-8"))
    content = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    atomic_files.write_file(path, content, mode=0o600, overwrite=False)


def load_private_key(path: Path, *, passphrase: str | None = None) -> PrivateKey:
    """Returns the private key of a PEM file that nobody but its owner may read.

    InputError: KEY_EXPOSED where others may; KEY_ENCRYPTED where the passphrase is not given;
    BAD_KEY for any other file, and for a wrong passphrase.
    """
    with needs_extra("cryptography", "keys"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    try:
        content = atomic_files.read_file(path, max_bytes=MAX_KEY_BYTES, private=True)
        if passphrase is None and _ENCRYPTED.search(content):
            raise InputError(
                f"The private key '{path}' is encrypted. Give its passphrase.",
                code="KEY_ENCRYPTED",
            )
        password = None if passphrase is None else passphrase.encode("utf-8")
        key = serialization.load_pem_private_key(content, password=password)
    except PermissionError as problem:
        if _holds_no_private_key(path):
            raise _bad_private_key(path, "it holds no private key") from problem
        raise _unsafe_private_key(path, problem) from problem
    except FileNotFoundError as problem:
        raise InputError(
            f"There is no private key '{path}'. Check the path; `hushdoc keygen` makes one.",
            code="BAD_KEY",
        ) from problem
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise _bad_private_key(path, str(problem)) from problem
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise _bad_private_key(path, f"found {type(key).__name__} of another algorithm or curve")


def load_public_key(path: Path) -> tuple[str, bytes]:
    """Returns algorithm and raw bytes of a public key in PEM; P-256 needs `cryptography`."""
    try:
        content = atomic_files.read_file(path, max_bytes=MAX_KEY_BYTES)
    except OSError as problem:
        raise _bad_public_key(path, str(problem)) from problem
    raw = _ed25519_from_pem(content)
    if raw is not None:
        return ED25519, raw
    with needs_extra("cryptography", "keys"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise _bad_public_key(path, str(problem)) from problem
    public = _raw(key)
    if public is None:
        raise _bad_public_key(path, f"found {type(key).__name__} of another algorithm or curve")
    return public


def algorithm_of(private_key: PrivateKey) -> str:
    """Returns the algorithm of a private key, one of ALGORITHMS; ValueError for another."""
    return _public_half(private_key)[0]


def public_key_of(private_key: PrivateKey) -> bytes:
    """Returns the raw public key: 32 bytes (Ed25519) or the uncompressed point of 65 (P-256)."""
    return _public_half(private_key)[1]


def key_id(public_key: bytes) -> str:
    """Returns the identifier of a key: SHA-256 of its raw bytes, in hexadecimal."""
    return hashlib.sha256(public_key).hexdigest()


def key_problem(public_key: bytes, algorithm: str = ED25519) -> str | None:
    """Returns why raw bytes are no sound public key of an algorithm, or None."""
    if algorithm == ED25519:
        return _ed25519_problem(public_key)
    if algorithm == ECDSA_P256:
        return _p256_problem(public_key)
    raise ValueError(f"algorithm is {algorithm!r}; expected one of {ALGORITHMS}.")


def sign_message(message: bytes, private_key: PrivateKey) -> bytes:
    """Returns the signature of a message: 64 bytes (Ed25519) or DER (P-256)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    if isinstance(private_key, ec.EllipticCurvePrivateKey):
        return private_key.sign(message, ec.ECDSA(hashes.SHA256()))
    return private_key.sign(message)


def verifies(public_key: bytes, algorithm: str, signature: bytes, message: bytes) -> bool:
    """Returns whether a key made the signature of the message.

    `key_problem` must have found nothing in the key. P-256 signatures are canonical DER and need
    `cryptography` (MissingExtraError).
    """
    holds = _ed25519_holds if algorithm == ED25519 else _ecdsa_p256_holds
    return holds(public_key, signature, message)


def _public_half(private_key: PrivateKey) -> tuple[str, bytes]:
    public = _raw(private_key.public_key())
    if public is None:
        raise ValueError(f"The key is {type(private_key).__name__}; expected one of {ALGORITHMS}.")
    return public


def _raw(key: object) -> tuple[str, bytes] | None:
    """Algorithm and raw bytes of a public key of `cryptography`; None for others."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if isinstance(key, Ed25519PublicKey):
        return ED25519, key.public_bytes_raw()
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return ECDSA_P256, key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return None


def _ed25519_problem(public_key: bytes) -> str | None:
    if len(public_key) != 32:
        return f"has {len(public_key)} bytes, expected 32"
    y = int.from_bytes(public_key, "little") & ((1 << 255) - 1)
    if y >= _PRIME:
        return "is not in canonical form"
    if y in _SMALL_ORDER_Y:
        return "is a point of small order, under which forged signatures hold"
    x_squared = (y * y - 1) * pow(_CURVE_D * y * y + 1, -1, _PRIME) % _PRIME
    if pow(x_squared, (_PRIME - 1) // 2, _PRIME) != 1:
        return "is not a point of the curve"
    return None


def _p256_problem(public_key: bytes) -> str | None:
    """Accepts uncompressed points alone; the compressed form would be a second key id."""
    if len(public_key) != 65 or public_key[0] != 4:
        return f"has {len(public_key)} bytes, expected the 65 of an uncompressed point (04 x y)"
    x, y = int.from_bytes(public_key[1:33]), int.from_bytes(public_key[33:])
    if x >= _P256_PRIME or y >= _P256_PRIME:
        return "is not in canonical form"
    if (y * y - x**3 + 3 * x - _P256_B) % _P256_PRIME:
        return "is not a point of the curve"
    return None


def _ed25519_holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    from nacl.bindings import crypto_sign_BYTES, crypto_sign_open
    from nacl.exceptions import BadSignatureError

    if len(signature) != crypto_sign_BYTES:
        return False
    # libsodium refuses most of these; here the specification does, whatever its version.
    r_y = int.from_bytes(signature[:32], "little") & ((1 << 255) - 1)
    if r_y >= _PRIME or r_y in _SMALL_ORDER_Y:
        return False
    try:
        crypto_sign_open(signature + message, public_key)
    except BadSignatureError:
        return False
    return True


def _ecdsa_p256_holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    with needs_extra("cryptography", "keys"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
    try:
        # One pair (r, s) has one encoding here, whatever else the library below would read.
        if utils.encode_dss_signature(*utils.decode_dss_signature(signature)) != signature:
            return False
        key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def _ed25519_from_pem(content: bytes) -> bytes | None:
    """Returns the raw key of a file that holds one Ed25519 key and no other text."""
    found = _PUBLIC_PEM.fullmatch(content)
    try:
        der = binascii.a2b_base64(b"".join(found[1].split()), strict_mode=True) if found else b""
    except binascii.Error:
        return None
    is_ed25519 = der.startswith(_ED25519_DER) and len(der) == len(_ED25519_DER) + 32
    return der[len(_ED25519_DER) :] if is_ed25519 else None


def _holds_no_private_key(path: Path) -> bool:
    """Returns whether a file is a text without a private key in it, such as a trust store."""
    try:
        text = atomic_files.read_file(path, max_bytes=MAX_KEY_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "PRIVATE KEY" not in text


def _unsafe_private_key(path: Path, problem: OSError) -> InputError:
    if problem.errno != errno.EPERM:
        return _bad_private_key(path, str(problem))
    return InputError(
        f"The private key '{path}' was not used: {problem.strerror}. Expected a file for its owner "
        "alone: take the permissions away (chmod 600), and if somebody may have read it, revoke "
        "this key and make another.",
        code="KEY_EXPOSED",
    )


def _bad_private_key(path: Path, found: str) -> InputError:
    return InputError(
        f"'{path}' is not a private signing key, or its passphrase is another: {found}. Expected "
        "an Ed25519 or P-256 key in PEM; make one with `hushdoc keygen`.",
        code="BAD_KEY",
    )


def _bad_public_key(path: Path, found: str) -> InputError:
    return InputError(
        f"'{path}' is not a public key: {found}. Expected PEM with BEGIN PUBLIC KEY, Ed25519 or "
        "P-256. A private key has no place in a trust store.",
        code="BAD_KEY",
    )
