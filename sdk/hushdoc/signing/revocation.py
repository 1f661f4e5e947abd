"""RevocationList: which keys and certificates are no longer trusted, signed and numbered.

A list replaces the one before and holds everything that is revoked. Its number grows with every
issue, so that an old list can't be passed off as the newest (rollback: the trust store remembers
the largest number seen), and it names the time of the next one, so that it can't be passed off
forever (freeze). It is signed by a key with the role "revocation", under a payload type of its own,
and revokes for the models that this key may speak for. A key that it revokes signs no list, neither
this one nor a later one: who stole it would take everything back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import CertificateError, HushdocError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    TIME_FORMAT,
    Record,
    integer,
    listed,
    matching,
    optional,
    record,
    require_version,
    stored,
    text,
    time,
)
from hushdoc.signing import dsse
from hushdoc.signing.keys import PrivateKey
from hushdoc.signing.trust_store import REVOCATION, TrustedKey, TrustStore
from hushdoc.system import atomic_files, locks

PAYLOAD_TYPE = "application/vnd.hushdoc.revocation+json"
SCHEMA_VERSION = 1

CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far the issuer's clock may be ahead of ours."""


@dataclass(frozen=True, kw_only=True)
class RevokedKey(Record):
    """A key, by the SHA-256 of its raw bytes, whose signatures don't count, of whatever date."""

    keyid: str = stored(matching("[0-9a-f]{64}", "a key id of 64 hexadecimal digits"))
    reason: str | None = stored(optional(text))


@dataclass(frozen=True, kw_only=True)
class RevokedCertificate(Record):
    """A certificate that is no longer valid, whoever signed it."""

    certificate_id: str = stored(
        matching("[0-9a-f]{32}", "a certificate id of 32 hexadecimal digits")
    )
    reason: str | None = stored(optional(text))


@dataclass(frozen=True, kw_only=True)
class RevocationList(Record):
    """Everything that is revoked at one time.

    A newer list has a larger `sequence`; after `next_update` it is no longer trusted. Times are UTC
    as "2026-11-21T08:00:00Z".
    """

    sequence: int = stored(integer(minimum=1))
    issued_at: str = stored(time)
    next_update: str = stored(time)
    revoked_keys: tuple[RevokedKey, ...] = stored(listed(record(RevokedKey)))
    revoked_certificates: tuple[RevokedCertificate, ...] = stored(
        listed(record(RevokedCertificate))
    )

    @property
    def keyids(self) -> frozenset[str]:
        """The revoked keys."""
        return frozenset(item.keyid for item in self.revoked_keys)

    @property
    def certificate_ids(self) -> frozenset[str]:
        """The revoked certificates."""
        return frozenset(item.certificate_id for item in self.revoked_certificates)

    def problem(self) -> str | None:
        """Returns what is wrong between the fields, or None."""
        if self.next_update <= self.issued_at:
            return f"nextUpdate {self.next_update} is not after issuedAt {self.issued_at}"
        if len(self.keyids) < len(self.revoked_keys):
            return "a key is revoked twice, expected each once"
        if len(self.certificate_ids) < len(self.revoked_certificates):
            return "a certificate is revoked twice, expected each once"
        return None

    def to_json(self) -> bytes:
        """Returns the payload to sign; `from_json` reads it back."""
        return strict_json.dumps({"schemaVersion": SCHEMA_VERSION, **self.to_dict()})

    @classmethod
    def from_json(cls, content: bytes) -> RevocationList:
        """Returns the list in the payload of a verified envelope; CertificateError if malformed."""
        data = strict_json.loads(content, what="The revocation list")
        require_version(data, SCHEMA_VERSION, "revocation list")
        fields = {key: value for key, value in data.items() if key != "schemaVersion"}
        return cls.from_dict(fields, "revocation list")


def sign_list(revoked: RevocationList, private_key: PrivateKey) -> str:
    """Returns a signed revocation list, as one line; a list that nobody would obey is refused."""
    content = revoked.to_json()
    RevocationList.from_json(content)
    keyid = TrustedKey.of(private_key).keyid
    if keyid in revoked.keyids:
        raise CertificateError(
            f"The list revokes the key {keyid} that should sign it, and a revoked key signs no "
            "list. Sign it with another key that has the role revocation.",
            code="REVOKED",
        )
    return dsse.sign(content, private_key, payload_type=PAYLOAD_TYPE)


def successor(
    previous: RevocationList | None,
    *,
    keys: Iterable[str] = (),
    certificates: Iterable[str] = (),
    reason: str | None = None,
    valid_for: timedelta,
    now: datetime,
) -> RevocationList:
    """Returns the next list, due again after `valid_for`: all revoked before, and what is added."""
    old = previous.revoked_keys if previous else ()
    old_certificates = previous.revoked_certificates if previous else ()
    known = {item.keyid for item in old}
    known |= {item.certificate_id for item in old_certificates}
    return RevocationList(
        sequence=1 + (previous.sequence if previous else 0),
        issued_at=_formatted(now),
        next_update=_formatted(now + valid_for),
        revoked_keys=(
            *old,
            *(RevokedKey(keyid=keyid, reason=reason) for keyid in _unknown(keys, known)),
        ),
        revoked_certificates=(
            *old_certificates,
            *(
                RevokedCertificate(certificate_id=name, reason=reason)
                for name in _unknown(certificates, known)
            ),
        ),
    )


def read_list_file(path: Path, trust: TrustStore, *, now: datetime) -> RevocationList:
    """Returns the revocation list of a file, if it is valid now, as `read_list` does."""
    return read_list(list_content(path), trust, now=now)


def read_list(
    content: bytes | None, trust: TrustStore, *, now: datetime, model: str | None = None
) -> RevocationList:
    """Returns a revocation list (one signed line), if it is valid now; for one model, if it says.

    From then on this store obeys no older list and none by a key that this one revokes, nor does
    its file, if it was read from one that can be written. REVOCATION_UNAVAILABLE: there is none, no
    unrevoked key with the role "revocation" that speaks for the model signed it, it is malformed,
    out of date or issued in the future. REVOCATION_ROLLBACK: a newer one has been seen.
    """
    found, signers = _verified(content, trust)
    if model is not None and not any(key.speaks_for(model) for key in signers):
        raise _unavailable(f"is signed by no key that may revoke for the model {short_repr(model)}")
    newest = newest_seen(trust)
    if found.sequence < newest:
        raise CertificateError(
            f"The revocation list has the number {found.sequence}, and number "
            f"{newest} has been seen. An attacker may be hiding what was "
            "revoked since; fetch the newest list.",
            code="REVOCATION_ROLLBACK",
        )
    clock = _formatted(now)
    if found.issued_at > _formatted(now + CLOCK_TOLERANCE):
        raise _unavailable(f"was issued {found.issued_at}, and this clock says {clock}")
    if found.next_update <= clock:
        raise _unavailable(
            f"announced a newer one by {found.next_update}, and this clock says {clock}"
        )
    _remember(found.sequence, found.keyids, signers, trust)
    return found


def newest_seen(trust: TrustStore) -> int:
    """Returns the number of the newest list that a store has obeyed, 0 for none."""
    return max(trust.min_revocation_sequence, trust.obeyed.sequence)


def list_content(path: Path) -> bytes | None:
    """Returns the unchecked content of a revocation list's file, or None if it does not exist."""
    try:
        # With the end of the line; a line too long is seen as such.
        return atomic_files.read_file(path, max_bytes=dsse.MAX_ENVELOPE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _unavailable(f"'{path}' can't be read: {problem.strerror or problem}") from problem


def verify_list(content: bytes | None, trust: TrustStore) -> RevocationList:
    """Returns a revocation list that a trusted key signed, of whatever age and number.

    That suffices to issue the next one, never to obey it: use `read_list` for that.
    """
    return _verified(content, trust)[0]


def _verified(
    content: bytes | None, trust: TrustStore
) -> tuple[RevocationList, tuple[TrustedKey, ...]]:
    """Returns a list and the trusted keys that signed it, without those that are revoked."""
    if not content:
        seen = newest_seen(trust)
        raise _unavailable(f"is missing, and number {seen} has been seen" if seen else "is missing")
    try:
        verified = dsse.verify(
            content.removesuffix(b"\n"), trust, payload_type=PAYLOAD_TYPE, role=REVOCATION
        )
        found = RevocationList.from_json(verified.payload)
    except CertificateError as problem:
        raise _unavailable(f"can't be trusted ({problem.code}: {problem})") from problem
    gone = found.keyids | trust.revoked_revokers | trust.obeyed.revoked_revokers
    left = tuple(key for key in verified.keys if key.keyid not in gone)
    if not left:
        # Whether its owner or a thief says so: a key that revokes itself is not its owner's alone.
        own = frozenset(key.keyid for key in verified.keys) & found.keyids
        _remember(0, own, verified.keys, trust)
        named = ", ".join(key.keyid[:16] for key in verified.keys)
        raise _unavailable(f"is signed by no key but revoked ones ({named})")
    return found, left


def require_not_revoked(
    certificate_id: str,
    signers: tuple[TrustedKey, ...],
    revoked: RevocationList,
    *,
    threshold: int,
    made_from: Collection[str] = (),
) -> tuple[TrustedKey, ...]:
    """Returns the signers that are left; nobody else speaks for the certificate.

    Raises REVOKED where the certificate is, or one of what the model was made from, whose guarantee
    it has, or fewer than `threshold` of its signers are left; 0 where no signature is demanded.
    """
    for item in revoked.revoked_certificates:
        if item.certificate_id in (certificate_id, *made_from):
            own = item.certificate_id == certificate_id
            what = "" if own else f", of what {certificate_id} was made from,"
            raise CertificateError(
                f"The certificate {item.certificate_id}{what} was revoked by list number "
                f"{revoked.sequence}: {_reason(item.reason)}. Do not use this model; ask its "
                "issuer for a newer one.",
                code="REVOKED",
            )
    left = unrevoked(signers, revoked)
    if len(left) < threshold:
        reasons = {item.keyid: item.reason for item in revoked.revoked_keys}
        gone = [key for key in signers if key not in left]
        named = "; ".join(f"{key.keyid[:16]}: {_reason(reasons[key.keyid])}" for key in gone)
        raise CertificateError(
            f"{len(left)} signers of the certificate are left, expected {threshold}. Revoked by "
            f"list number {revoked.sequence}: {named or 'none of them'}. Ask the issuer for a "
            "certificate signed by another key.",
            code="REVOKED",
        )
    return left


def unrevoked(keys: Iterable[TrustedKey], revoked: RevocationList) -> tuple[TrustedKey, ...]:
    """Returns the keys that the list does not revoke."""
    return tuple(key for key in keys if key.keyid not in revoked.keyids)


def remembering(trust: TrustStore, sequence: int, keyids: frozenset[str]) -> TrustStore:
    """Returns the store once it has obeyed a list of this number that revokes these keys."""
    revokers = {key.keyid for key in trust.with_role(REVOCATION)}
    return replace(
        trust,
        min_revocation_sequence=max(trust.min_revocation_sequence, sequence),
        revoked_revokers=trust.revoked_revokers | (revokers & keyids),
    )


def _remember(
    sequence: int, keyids: frozenset[str], signers: Iterable[TrustedKey], trust: TrustStore
) -> None:
    """Records what a list says, in the store's file where its signers are trusted there too."""
    after = remembering(trust, sequence, keyids)
    trust.obeyed.add(sequence, after.revoked_revokers)
    if trust.source is None or after == trust:
        return
    with suppress(OSError, HushdocError), locks.locked(trust.source.parent, wait=False):
        stored = TrustStore.from_file(trust.source)
        revokers = {key.keyid for key in stored.with_role(REVOCATION)} - stored.revoked_revokers
        after = remembering(stored, sequence, keyids)
        if after != stored and any(key.keyid in revokers for key in signers):
            locks.rewrite(trust.source, after.to_json())


def _unknown(names: Iterable[str], known: set[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name not in known]


def _formatted(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(TIME_FORMAT)


def _reason(reason: str | None) -> str:
    return "no reason given" if reason is None else printable(reason, limit=200)


def _unavailable(found: str) -> CertificateError:
    return CertificateError(
        f"The revocation list {found}. Expected one that a key with the role {REVOCATION} signed "
        "and that is valid now; fetch the newest list, or set the clock right.",
        code="REVOCATION_UNAVAILABLE",
    )
