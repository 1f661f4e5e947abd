"""TrustStore: the public keys an application believes, and for which models.

The store is the application's own file. The algorithm of a key stands here and never in an
envelope, and a key under which signatures hold for any message (a point of small order) is not
admitted: libraries accept such keys.
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
from hushdoc.fields import MAX_ITEMS, integer, listed, require_keys, text, word

ALGORITHMS = ("ed25519",)
ANY_MODEL = "*"

_PRIME = 2**255 - 19
_CURVE_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
# The y of a point of order eight; the other is its negative (RFC 8032 section 5.1 has the curve).
_ORDER_EIGHT_Y = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
_SMALL_ORDER_Y = frozenset({0, 1, _PRIME - 1, _ORDER_EIGHT_Y, _PRIME - _ORDER_EIGHT_Y})


@dataclass(frozen=True, kw_only=True)
class TrustedKey:
    """A public key that an application believes.

    Attributes:
        name: Whose it is, for people.
        public_key: 32 raw bytes (Ed25519).
        models: Names of the models it may speak for; "*" is all.
        algorithm: One of ALGORITHMS.
    """

    name: str
    public_key: bytes
    models: tuple[str, ...] = (ANY_MODEL,)
    algorithm: str = "ed25519"

    def __post_init__(self) -> None:
        """Refuses keys that prove nothing."""
        problem = key_problem(self.public_key)
        if problem is not None:
            raise SignatureError(
                f"The public key of '{self.name}' {problem}. Take it out of the trust store and "
                "ask its owner for a sound one.",
                code="WEAK_KEY",
            )

    @property
    def keyid(self) -> str:
        """The key's identifier: SHA-256 of the raw public key, in hexadecimal."""
        return key_id(self.public_key)

    def speaks_for(self, model: str) -> bool:
        """Returns whether this key may sign for the model of that name."""
        return ANY_MODEL in self.models or model in self.models


@dataclass(frozen=True, kw_only=True)
class TrustStore:
    """The keys an application believes; each stands here once."""

    keys: tuple[TrustedKey, ...]

    def __post_init__(self) -> None:
        """Refuses the same key under two names: it would count twice for a threshold."""
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
            return cls(keys=_keys_from(data))
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
            }
            for key in self.keys
        ]
        return (json.dumps({"version": 1, "keys": keys}, indent=2) + "\n").encode("ascii")


def key_id(public_key: bytes) -> str:
    """Returns the identifier of a key: SHA-256 of its 32 raw bytes, in hexadecimal."""
    return hashlib.sha256(public_key).hexdigest()


def key_problem(public_key: bytes) -> str | None:
    """Returns why an Ed25519 public key proves nothing, or None."""
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


def _keys_from(data: Any) -> tuple[TrustedKey, ...]:
    require_keys(data, {"version", "keys"}, "trust store")
    version = integer().read(data["version"], "version")
    if version != 1:
        raise CertificateError(f"version is {version}, expected 1.", code="UNKNOWN_VALUE")
    if not isinstance(data["keys"], list) or len(data["keys"]) > MAX_ITEMS:
        raise CertificateError("keys is not a short list.", code="BAD_FIELD")
    return tuple(_key_from(item, f"keys[{index}]") for index, item in enumerate(data["keys"]))


def _key_from(data: Any, where: str) -> TrustedKey:
    require_keys(data, {"keyid", "algorithm", "publicKey", "name", "models"}, where)
    key = TrustedKey(
        name=text.read(data["name"], f"{where}.name"),
        public_key=decode_base64(
            text.read(data["publicKey"], f"{where}.publicKey"), f"{where}.publicKey"
        ),
        models=listed(text).read(data["models"], f"{where}.models"),
        algorithm=word(ALGORITHMS).read(data["algorithm"], f"{where}.algorithm"),
    )
    if data["keyid"] != key.keyid:
        raise CertificateError(
            f"{where}.keyid is not the SHA-256 of its public key, which is {key.keyid}.",
            code="BAD_FIELD",
        )
    return key
