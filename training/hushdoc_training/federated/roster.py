"""Roster: who takes part in a federated run and under which plan, in one signed file.

Every party holds the same file and approves its digest by hand, so that the coordinator can neither
add clients (whose noise would be none), nor show different parties different plans. Another plan is
another roster, another approval and another reservation in every ledger; no message changes it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import HushdocError, InputError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Record,
    anything,
    keyed,
    listed,
    matching,
    record,
    require_version,
    sha256,
    stored,
)
from hushdoc.signing import dsse, keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.hushdoc.federated-roster+json"
SCHEMA_VERSION = 1
COORDINATOR = "coordinator"
"""What every roster calls the coordinator; no client has this name."""


@dataclass(frozen=True, kw_only=True)
class Party(Record):
    """A client or the coordinator.

    Attributes:
        name: What others call it: up to 40 lower-case letters, digits and hyphens.
        public_key: The raw Ed25519 key that its frames are signed with, in hexadecimal.
    """

    name: str = stored(
        matching("[a-z0-9][a-z0-9-]{0,39}", "up to 40 lower-case letters, digits and hyphens")
    )
    public_key: str = stored(matching("[0-9a-f]{64}", "an Ed25519 key of 64 hexadecimal digits"))

    @classmethod
    def of(cls, name: str, private_key: keys.PrivateKey) -> Self:
        """Returns a party by its private key; a ValueError unless that is of Ed25519."""
        if keys.algorithm_of(private_key) != keys.ED25519:
            raise ValueError("A party's key must be of Ed25519; make one with `hushdoc keygen`.")
        return cls(name=name, public_key=keys.public_key_of(private_key).hex())

    @property
    def raw_key(self) -> bytes:
        """The public key's 32 bytes."""
        return bytes.fromhex(self.public_key)

    def problem(self) -> str | None:
        """Returns why the key proves nothing, or None."""
        found = keys.key_problem(self.raw_key)
        return None if found is None else f"the public key of {self.name} {found}"


@dataclass(frozen=True, kw_only=True)
class Roster(Record):
    """A federated run as all parties have agreed on it.

    Attributes:
        run: Its random name, 32 hexadecimal digits; public schedules follow from it.
        plan: The plan, as `FederatedPlan.to_dict` writes it.
        task: What is trained besides: model, labels and settings, as the recipe reads them.
        start: Digest of the weights that training starts from, untrained ones included.
        coordinator: Who adds up and steps.
        clients: Who holds documents; a client's number is its place here.
    """

    run: str = stored(matching("[0-9a-f]{32}", "32 hexadecimal digits"))
    plan: Mapping[str, Any] = stored(keyed(anything))
    task: Mapping[str, Any] = stored(keyed(anything))
    start: str = stored(sha256)
    coordinator: Party = stored(record(Party))
    clients: tuple[Party, ...] = stored(listed(record(Party)))

    def problem(self) -> str | None:
        """Returns which parties can't be told from one another, or None."""
        if self.coordinator.name != COORDINATOR:
            return f"the coordinator is called {self.coordinator.name}, expected {COORDINATOR}"
        if not self.clients:
            return "there is no client"
        for what in ("name", "public_key"):
            held = [getattr(party, what) for party in self.parties]
            twice = sorted({value for value in held if held.count(value) > 1})
            if twice:
                return (
                    f"{what.replace('_', ' ')} {twice[0]} stands twice; each party needs its own, "
                    "as one that counts twice would add its noise once"
                )
        return None

    @property
    def parties(self) -> tuple[Party, ...]:
        """The coordinator and all clients."""
        return (self.coordinator, *self.clients)

    @cached_property
    def content(self) -> bytes:
        """The bytes that are signed and digested."""
        return strict_json.dumps({"schemaVersion": SCHEMA_VERSION, **self.to_dict()})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, 64 hexadecimal digits: what parties approve and frames carry."""
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def public_keys(self) -> Mapping[str, Ed25519PublicKey]:
        """The keys of all parties by name, as frames are verified with."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return {
            party.name: Ed25519PublicKey.from_public_bytes(party.raw_key) for party in self.parties
        }

    def number_of(self, client: str) -> int:
        """Returns a client's number, from 0; InputError NOT_IN_ROSTER where it has none."""
        for number, party in enumerate(self.clients):
            if party.name == client:
                return number
        raise _not_in_roster(f"names no client {short_repr(client)}")

    def party_of(self, private_key: keys.PrivateKey) -> Party:
        """Returns whose private key this is; InputError NOT_IN_ROSTER where it is nobody's."""
        public = keys.public_key_of(private_key).hex()
        for party in self.parties:
            if hmac.compare_digest(party.public_key, public):
                return party
        raise _not_in_roster(f"has no party with the key {public[:16]}...")

    def require_coordinator(self, private_key: keys.PrivateKey) -> None:
        """Raises InputError NOT_IN_ROSTER unless this is the coordinator's private key."""
        if self.party_of(private_key) != self.coordinator:
            raise _not_in_roster("is its coordinator's to use, and this is another's key")

    def require_approved(self, digest: str) -> None:
        """Raises PrivacyError ROSTER_NOT_APPROVED unless this is the digest that was approved."""
        if not hmac.compare_digest(self.digest, digest.strip().lower()):
            raise PrivacyError(
                f"The roster has the digest {self.digest}, and {printable(digest, 64)} was "
                "approved. Compare the digest with all other parties, over a channel that the "
                "coordinator has no hand in, and approve the one that all of them have.",
                code="ROSTER_NOT_APPROVED",
            )


def save(path: Path, roster: Roster, private_key: keys.PrivateKey) -> None:
    """Writes a roster, signed by its coordinator; an existing file is never replaced.

    Raises:
        InputError: NOT_IN_ROSTER, where the key is not the coordinator's.
        OutputExistsError: A file stands there.
    """
    roster.require_coordinator(private_key)
    line = dsse.sign(roster.content, private_key, payload_type=PAYLOAD_TYPE)
    atomic_files.write_file(path, line.encode(), overwrite=False)


def load(path: Path) -> Roster:
    """Returns the roster of a file, whose coordinator has signed it; nothing of it is approved.

    Raises:
        InputError: BAD_ROSTER, where the file can't be read or its signature does not hold.
    """
    try:
        envelope = atomic_files.read_file(path, max_bytes=dsse.MAX_ENVELOPE_BYTES)
        payload = dsse.read_envelope(envelope, payload_type=PAYLOAD_TYPE).payload
        roster = _of(payload)
        signer = TrustedKey(name=COORDINATOR, public_key=roster.coordinator.raw_key)
        dsse.verify(envelope, TrustStore(keys=(signer,)), payload_type=PAYLOAD_TYPE)
        if roster.content != payload:
            raise InputError("it is not in canonical form")
        return roster
    except OSError as error:
        raise InputError(
            f"The roster '{printable(path)}' can't be read: {error.strerror or error}. Name the "
            "folder of a party, as `hushdoc federated init` wrote it, or that of a simulation.",
            code="BAD_ROSTER",
        ) from error
    except HushdocError as error:
        raise InputError(
            f"'{printable(path)}' is not a sound roster: {error} Ask the coordinator for the file "
            "that `hushdoc federated init` wrote.",
            code="BAD_ROSTER",
        ) from error


def _of(payload: bytes) -> Roster:
    data = strict_json.loads(payload, what="The roster")
    require_version(data, SCHEMA_VERSION, "roster")
    return Roster.from_dict(
        {key: value for key, value in data.items() if key != "schemaVersion"}, "roster"
    )


def _not_in_roster(found: str) -> InputError:
    return InputError(
        f"The roster {found}. Use the roster and the key of the same run.", code="NOT_IN_ROSTER"
    )
