"""TrustStore: the public keys an application believes, for which models, and for what.

The store is the application's own file. Algorithm, models and roles of a key stand here and never
in an envelope. A key under which signatures hold for any message (an Ed25519 point of small order)
is not admitted: libraries accept such keys.

A signature proves that a key signed, and is no name of its own: an ECDSA signature (r, s) has the
twin (r, n - s), which holds as well and is accepted, because key services return either. Nothing
here is ever counted, found or remembered by its signature; keys are, and each counts once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc import strict_json
from hushdoc.errors import CertificateError, InputError, SignatureError
from hushdoc.fields import Codec, bad_field, integer, kind_of, listed, require_keys, text, word

ED25519 = "ed25519"
ECDSA_P256 = "ecdsa-p256"
ALGORITHMS = (ED25519, ECDSA_P256)
"""RFC 8032, and ECDSA on P-256 with SHA-256 and DER signatures (FIPS 186-5), as key services do."""

CERTIFICATE, AUDIT, REVOCATION = "certificate", "audit", "revocation"
ROLES = (CERTIFICATE, AUDIT, REVOCATION)
"""What a key may sign."""

ANY_MODEL = "*"
STORE_VERSION = 2
"""Version 1 had Ed25519 keys for certificates only; it is still read."""

_PRIME = 2**255 - 19
_CURVE_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
# The y of a point of order eight; the other is its negative (RFC 8032 section 5.1 has the curve).
_ORDER_EIGHT_Y = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
_SMALL_ORDER_Y = frozenset({0, 1, _PRIME - 1, _ORDER_EIGHT_Y, _PRIME - _ORDER_EIGHT_Y})

# y^2 = x^3 - 3 x + b over this prime (SP 800-186 section 3.2.1.3). The curve's order is prime, so
# no point but infinity, which has no coordinates to spell, is of small order.
_P256_PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
_P256_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


@dataclass(frozen=True, kw_only=True)
class TrustedKey:
    """A public key that an application believes.

    Attributes:
        name: Whose it is, for people.
        public_key: 32 raw bytes (Ed25519), or the uncompressed point of 65 bytes (P-256).
        models: Names of the models it may speak for; "*" is all.
        algorithm: One of ALGORITHMS.
        roles: What it may sign, of ROLES, each once.
    """

    name: str
    public_key: bytes
    models: tuple[str, ...] = (ANY_MODEL,)
    algorithm: str = ED25519
    roles: tuple[str, ...] = (CERTIFICATE,)

    def __post_init__(self) -> None:
        """Refuses keys that prove nothing, and roles that do not exist."""
        if not self.roles or len(set(self.roles)) < len(self.roles) or set(self.roles) - set(ROLES):
            raise ValueError(f"roles is {self.roles!r}; expected some of {ROLES}, each once.")
        problem = key_problem(self.public_key, self.algorithm)
        if problem is not None:
            raise SignatureError(
                f"The public key of {ascii(self.name)[:80]} {problem}. Take it out of the trust "
                "store and ask its owner for a sound one.",
                code="WEAK_KEY",
            )

    @property
    def keyid(self) -> str:
        """The key's identifier: SHA-256 of the raw public key, in hexadecimal."""
        return key_id(self.public_key)

    def speaks_for(self, model: str) -> bool:
        """Returns whether this key may sign for the model of that name."""
        return ANY_MODEL in self.models or model in self.models

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Returns whether this key made the signature of the message.

        Args:
            signature: 64 bytes (Ed25519), or DER in its one canonical form (P-256).
            message: The very bytes that were signed.
        """
        holds = _ed25519_holds if self.algorithm == ED25519 else _ecdsa_p256_holds
        return holds(self.public_key, signature, message)


@dataclass(frozen=True, kw_only=True)
class TrustStore:
    """The keys an application believes; each stands here once.

    Attributes:
        keys: The keys.
        min_revocation_sequence: Number of the newest revocation list ever seen; an older one is
            a rollback. A store follows one list.
    """

    keys: tuple[TrustedKey, ...]
    min_revocation_sequence: int = 0

    def __post_init__(self) -> None:
        """Refuses the same key under two names: it would count twice for a threshold."""
        if self.min_revocation_sequence < 0:
            raise ValueError(
                f"min_revocation_sequence is {self.min_revocation_sequence}; expected 0 or more."
            )
        if len({key.keyid for key in self.keys}) != len(self.keys):
            raise InputError(
                "The trust store holds one key twice. Name it once, with all its models.",
                code="BAD_TRUST_STORE",
            )

    @classmethod
    def of(cls, keys: Iterable[TrustedKey]) -> TrustStore:
        """Returns the store of these keys."""
        return cls(keys=tuple(keys))

    @classmethod
    def from_file(cls, path: str | Path) -> TrustStore:
        """Returns the store that a JSON file holds.

        Args:
            path: A file as `hushdoc keygen` writes it.

        Raises:
            InputError: BAD_TRUST_STORE: the file can't be read or is malformed.
            SignatureError: WEAK_KEY: a key in it proves nothing.
        """
        data = strict_json.read_file(Path(path), what="The trust store", code="BAD_TRUST_STORE")
        try:
            return _store_from(data)
        except SignatureError:
            raise
        except CertificateError as problem:
            raise InputError(
                f"'{path}' is not a trust store: {problem} Expected what `hushdoc keygen` writes.",
                code="BAD_TRUST_STORE",
            ) from problem

    def to_json(self) -> bytes:
        """Returns the text of a trust store file; `from_file` reads it back."""
        keys = [
            {
                "keyid": key.keyid,
                "algorithm": key.algorithm,
                "publicKey": base64.b64encode(key.public_key).decode("ascii"),
                "name": key.name,
                "models": list(key.models),
                "roles": list(key.roles),
            }
            for key in self.keys
        ]
        data = {
            "version": STORE_VERSION,
            "keys": keys,
            "minRevocationSequence": self.min_revocation_sequence,
        }
        return (json.dumps(data, indent=2) + "\n").encode("ascii")

    def with_role(self, role: str) -> tuple[TrustedKey, ...]:
        """Returns the keys that may sign what the role is for.

        Args:
            role: One of ROLES.

        Raises:
            ValueError: There is no such role.
        """
        if role not in ROLES:
            raise ValueError(f"role is {role!r}; expected one of {ROLES}.")
        return tuple(key for key in self.keys if role in key.roles)


def key_id(public_key: bytes) -> str:
    """Returns the identifier of a key: SHA-256 of its raw bytes, in hexadecimal."""
    return hashlib.sha256(public_key).hexdigest()


def key_problem(public_key: bytes, algorithm: str = ED25519) -> str | None:
    """Returns why a public key proves nothing, or None.

    Args:
        public_key: Its raw bytes.
        algorithm: One of ALGORITHMS.

    Raises:
        ValueError: There is no such algorithm.
    """
    if algorithm == ED25519:
        return _ed25519_problem(public_key)
    if algorithm == ECDSA_P256:
        return _p256_problem(public_key)
    raise ValueError(f"algorithm is {algorithm!r}; expected one of {ALGORITHMS}.")


def load_public_key(path: Path) -> tuple[str, bytes]:
    """Returns algorithm and raw bytes of the public key in a PEM file.

    Args:
        path: A file with "BEGIN PUBLIC KEY", as key services and openssl write it.

    Raises:
        InputError: BAD_KEY: it can't be read or is no key of ALGORITHMS.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise _bad_public_key(path, str(problem)) from problem
    spelled = raw_public_key(key)
    if spelled is None:
        raise _bad_public_key(path, f"found {type(key).__name__} of another algorithm or curve")
    return spelled


def raw_public_key(key: object) -> tuple[str, bytes] | None:
    """Returns algorithm and raw bytes of a public key of `cryptography`; None for other kinds."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if isinstance(key, Ed25519PublicKey):
        return ED25519, key.public_bytes_raw()
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return ECDSA_P256, key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return None


def decode_base64(value: str, where: str, *, code: str = "BAD_FIELD") -> bytes:
    """Returns the bytes of standard, padded base64 without blanks; one value has one spelling.

    Raises:
        CertificateError: `code`: it is spelled otherwise.
    """
    try:
        content = base64.b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        content = None
    if content is None or base64.b64encode(content).decode("ascii") != value:
        raise CertificateError(
            f"{where} is not strict base64; expected the standard alphabet with padding and "
            "nothing else. Ask its issuer for a sound copy.",
            code=code,
        )
    return content


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
    """One point has one spelling here; its compressed form would be a second key id."""
    if len(public_key) != 65 or public_key[0] != 4:
        return f"has {len(public_key)} bytes, expected the 65 of an uncompressed point (04 x y)"
    x, y = int.from_bytes(public_key[1:33]), int.from_bytes(public_key[33:])
    if x >= _P256_PRIME or y >= _P256_PRIME:
        return "is not in canonical form"
    if (y * y - x**3 + 3 * x - _P256_B) % _P256_PRIME:
        return "is not a point of the curve"
    return None


def _ed25519_holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _ecdsa_p256_holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
    try:
        # One pair (r, s) has one spelling here, whatever else the library below would read.
        if utils.encode_dss_signature(*utils.decode_dss_signature(signature)) != signature:
            return False
        key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def _store_from(data: Any) -> TrustStore:
    if not isinstance(data, dict) or "version" not in data:
        raise bad_field("trust store", "found no version, expected an object with one")
    version = integer().read(data["version"], "version")
    if version not in (1, STORE_VERSION):
        raise CertificateError(
            f"version is {version}, this hushdoc reads 1 and {STORE_VERSION}.", code="UNKNOWN_VALUE"
        )
    added = {"minRevocationSequence"} if version > 1 else set()
    require_keys(data, {"version", "keys"} | added, "trust store")
    read = _key_from if version > 1 else _key_from_version_1
    return TrustStore(
        keys=listed(Codec(read=read, write=lambda key: key)).read(data["keys"], "keys"),
        min_revocation_sequence=integer().read(
            data.get("minRevocationSequence", 0), "minRevocationSequence"
        ),
    )


def _key_from_version_1(data: Any, where: str) -> TrustedKey:
    require_keys(data, {"keyid", "algorithm", "publicKey", "name", "models"}, where)
    word((ED25519,)).read(data["algorithm"], f"{where}.algorithm")
    return _key_from({**data, "roles": [CERTIFICATE]}, where)


def _key_from(data: Any, where: str) -> TrustedKey:
    require_keys(data, {"keyid", "algorithm", "publicKey", "name", "models", "roles"}, where)
    key = TrustedKey(
        name=text.read(data["name"], f"{where}.name"),
        public_key=decode_base64(
            text.read(data["publicKey"], f"{where}.publicKey"), f"{where}.publicKey"
        ),
        models=listed(text).read(data["models"], f"{where}.models"),
        algorithm=word(ALGORITHMS).read(data["algorithm"], f"{where}.algorithm"),
        roles=_roles_from(data["roles"], f"{where}.roles"),
    )
    if data["keyid"] != key.keyid:
        raise CertificateError(
            f"{where}.keyid is not the SHA-256 of its public key, which is {key.keyid}.",
            code="BAD_FIELD",
        )
    return key


def _roles_from(data: Any, where: str) -> tuple[str, ...]:
    roles = listed(word(ROLES)).read(data, where)
    if not roles or len(set(roles)) < len(roles):
        raise bad_field(where, f"found {kind_of(data)}, expected at least one role, each once")
    return roles


def _bad_public_key(path: Path, found: str) -> InputError:
    return InputError(
        f"'{path}' is not a public key: {found}. Expected PEM with BEGIN PUBLIC KEY, Ed25519 or "
        "P-256. A private key has no place in a trust store.",
        code="BAD_KEY",
    )
