"""TrustStore: the public keys an application trusts, for which models, and for what.

The store is the application's own file. Algorithm, models and roles of a key are here and never in
an envelope. A key under which signatures verify for any message (an Ed25519 point of small order)
is refused: libraries accept such keys.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hushdoc import arguments
from hushdoc.arguments import short_repr
from hushdoc.errors import CertificateError, InputError, SignatureError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Codec,
    bad_field,
    integer,
    json_type,
    listed,
    matching,
    require_keys,
    text,
    word,
)
from hushdoc.signing.keys import (
    ALGORITHMS,
    ED25519,
    PrivateKey,
    algorithm_of,
    key_id,
    key_problem,
    public_key_of,
    verifies,
)

CERTIFICATE, AUDIT, REVOCATION = "certificate", "audit", "revocation"
ROLES = (CERTIFICATE, AUDIT, REVOCATION)
"""What a key may sign."""

ANY_MODEL = "*"
STORE_VERSION = 2
REMEMBERING_VERSION = 3
"""Of a store that remembers revoked revokers: a reader that would trust them refuses it."""

_FIELDS = {"version", "keys", "minRevocationSequence"}
_KEYID = matching("[0-9a-f]{64}", "a key id of 64 hexadecimal digits")


@dataclass(frozen=True, kw_only=True)
class TrustedKey:
    """A public key that an application trusts.

    Attributes:
        name: Whose it is, for people.
        public_key: 32 raw bytes (Ed25519), or the uncompressed point of 65 bytes (P-256).
        models: Names of the models it may sign for; "*" is all.
        algorithm: One of keys.ALGORITHMS.
        roles: What it may sign, of ROLES, each once.
    """

    name: str
    public_key: bytes
    models: tuple[str, ...] = (ANY_MODEL,)
    algorithm: str = ED25519
    roles: tuple[str, ...] = (CERTIFICATE,)

    def __post_init__(self) -> None:
        """Refuses keys that prove nothing, roles that do not exist, and one text as models."""
        # Of a text, any part of it would be the name of a model.
        models = arguments.listed(self.models, what="A key's models", of="names of models")
        object.__setattr__(self, "models", models)
        if not self.roles or len(set(self.roles)) < len(self.roles) or set(self.roles) - set(ROLES):
            raise ValueError(f"roles is {self.roles!r}; expected some of {ROLES}, each once.")
        problem = key_problem(self.public_key, self.algorithm)
        if problem is not None:
            raise SignatureError(
                f"The public key of {short_repr(self.name)} {problem}. Take it out of the trust "
                "store and ask its owner for a sound one.",
                code="WEAK_KEY",
            )

    @classmethod
    def of(
        cls,
        private_key: PrivateKey,
        *,
        name: str = "",
        models: tuple[str, ...] = (ANY_MODEL,),
        roles: tuple[str, ...] = (CERTIFICATE,),
    ) -> TrustedKey:
        """Returns the public half of a private key."""
        return cls(
            name=name,
            public_key=public_key_of(private_key),
            models=models,
            algorithm=algorithm_of(private_key),
            roles=roles,
        )

    @property
    def keyid(self) -> str:
        """The key's identifier: SHA-256 of the raw public key, in hexadecimal."""
        return key_id(self.public_key)

    def speaks_for(self, model: str) -> bool:
        """Returns whether this key may sign for the model of that name."""
        return ANY_MODEL in self.models or model in self.models

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Returns whether this key made the signature of the message."""
        return verifies(self.public_key, self.algorithm, signature, message)


@dataclass(kw_only=True)
class Obeyed:
    """Number of the newest revocation list obeyed, and ids of keys that may sign none any more."""

    sequence: int = 0
    revoked_revokers: set[str] = field(default_factory=set)

    def add(self, sequence: int, revoked_revokers: Iterable[str]) -> None:
        """Remembers what one more list says."""
        self.sequence = max(self.sequence, sequence)
        self.revoked_revokers.update(revoked_revokers)


@dataclass(frozen=True, kw_only=True)
class TrustStore:
    """The keys an application trusts, each once.

    Attributes:
        keys: The keys.
        min_revocation_sequence: Number of the newest revocation list ever seen; an older one is
            a rollback. A store follows one list.
        revoked_revokers: Ids of keys with the role "revocation" that a list revoked: they sign no
            list any more, whatever later ones say.
        source: The file that it was read from, where both are recorded.
        obeyed: What lists said that were obeyed by this store since it was made.
    """

    keys: tuple[TrustedKey, ...]
    min_revocation_sequence: int = 0
    revoked_revokers: frozenset[str] = frozenset()
    source: Path | None = field(default=None, compare=False, repr=False)
    obeyed: Obeyed = field(init=False, default_factory=Obeyed, compare=False, repr=False)

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
        found = arguments.listed(keys, what="What should be keys", of="TrustedKey")
        advice = "Make one with TrustedKey.of(public_key)."
        for number, key in enumerate(found):
            arguments.instance(key, TrustedKey, what=f"Key {number}", advice=advice)
        return cls(keys=found)

    @classmethod
    def from_file(cls, path: str | Path) -> TrustStore:
        """Returns the store that a JSON file holds, as `hushdoc keygen` writes it.

        Raises:
            InputError: BAD_TRUST_STORE: the file can't be read or is malformed.
            SignatureError: WEAK_KEY: a key in it proves nothing.
        """
        place = arguments.path(path, what="The trust store's file")
        data = strict_json.read_file(place, what="The trust store", code="BAD_TRUST_STORE")
        return replace(_store_from(data, f"'{path}'"), source=place.resolve())

    @classmethod
    def from_json(cls, content: bytes) -> TrustStore:
        """Returns the store that `to_json` wrote; its errors are those of `from_file`."""
        advice = "Pass the file's content."
        arguments.instance(content, bytes, what="The trust store", advice=advice)
        data = strict_json.loads(
            content, what="The trust store", code="BAD_TRUST_STORE", error=InputError
        )
        return _store_from(data, "The text")

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
        data: dict[str, Any] = {
            "version": REMEMBERING_VERSION if self.revoked_revokers else STORE_VERSION,
            "keys": keys,
            "minRevocationSequence": self.min_revocation_sequence,
        }
        if self.revoked_revokers:
            data["revokedRevokers"] = sorted(self.revoked_revokers)
        return (json.dumps(data, indent=2) + "\n").encode("ascii")

    def with_role(self, role: str) -> tuple[TrustedKey, ...]:
        """Returns the keys that may sign what the role, one of ROLES, is for."""
        if role not in ROLES:
            raise ValueError(f"role is {role!r}; expected one of {ROLES}.")
        return tuple(key for key in self.keys if role in key.roles)


def decode_base64(value: str, where: str, *, code: str = "BAD_FIELD") -> bytes:
    """Returns the bytes of canonical, padded base64; CertificateError with `code` for any other."""
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


def _store_from(data: Any, what: str) -> TrustStore:
    try:
        return _read_store(data)
    except SignatureError:
        raise
    except CertificateError as problem:
        raise InputError(
            f"{what} is not a trust store: {problem} Expected what `hushdoc keygen` writes.",
            code="BAD_TRUST_STORE",
        ) from problem


def _read_store(data: Any) -> TrustStore:
    if not isinstance(data, dict) or "version" not in data:
        raise bad_field("trust store", "found no version, expected an object with one")
    version = integer().read(data["version"], "version")
    if version not in (STORE_VERSION, REMEMBERING_VERSION):
        raise CertificateError(
            f"version is {version}, this hushdoc reads {STORE_VERSION} and {REMEMBERING_VERSION}.",
            code="UNKNOWN_VALUE",
        )
    remembers = version == REMEMBERING_VERSION
    require_keys(data, _FIELDS | {"revokedRevokers"} if remembers else _FIELDS, "trust store")
    revoked = listed(_KEYID).read(data.get("revokedRevokers", []), "revokedRevokers")
    return TrustStore(
        keys=listed(Codec(read=_key_from, write=lambda key: key)).read(data["keys"], "keys"),
        min_revocation_sequence=integer().read(
            data["minRevocationSequence"], "minRevocationSequence"
        ),
        revoked_revokers=frozenset(revoked),
    )


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
        raise bad_field(where, f"found {json_type(data)}, expected at least one role, each once")
    return roles
