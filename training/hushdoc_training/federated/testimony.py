"""Testimonies: what clients say at the end of a run, in the signed frames that they said it in.

The coordinator keeps these frames as they came, so it can't change a word of them, and whoever has
the roster reads them again. Nothing in them tells of a document: noise, rates and counts of steps
are the plan's, and of self-tests is said what they read and assume, never what they measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hushdoc.errors import CertificateError, FrameError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Record,
    anything,
    integer,
    keyed,
    optional,
    record,
    stored,
)
from hushdoc.system import atomic_files
from hushdoc_training.federated import frames
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.roster import COORDINATOR, Roster
from hushdoc_training.privacy.claims import ClaimDetails, unaccounted
from hushdoc_training.receipt import Receipt

RECEIPTS = "receipts"
"""Folder of a coordinator's with the frame of each client that testified."""

OWN = "own documents"
"""What a client calls its documents, whose name in the certificate is the coordinator's to give."""

_MAX_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Testimony(Record):
    """What a client says of its part at the end.

    Attributes:
        taken: Rounds that it was charged for.
        executed: Its receipt in plain data; None where there was nothing to count.
        checks: What its self-test, which passed, read and assumes; None where it made none.
    """

    taken: int = stored(integer())
    executed: Mapping[str, Any] | None = stored(optional(keyed(anything)))
    checks: ClaimDetails | None = stored(optional(record(ClaimDetails)))

    @classmethod
    def of(cls, taken: int, receipt: Receipt | None, checks: ClaimDetails | None) -> Testimony:
        """Returns the testimony of a client."""
        plain = None if receipt is None else strict_json.dumps(receipt.told())
        executed = None if plain is None else strict_json.loads(plain, what="A receipt")
        if receipt is not None and checks is not None:
            checks = _with_declared(checks, receipt)
        return cls(taken=taken, executed=executed, checks=checks)

    @property
    def receipt(self) -> Receipt | None:
        """What was executed; a PrivacyError NO_RECEIPT where nothing could have been so."""
        if self.executed is None:
            return None
        return Receipt.from_json(strict_json.dumps(self.executed))

    def encoded(self) -> bytes:
        """Returns the payload of a frame."""
        return strict_json.dumps(self.to_dict())


def _with_declared(checks: ClaimDetails, receipt: Receipt) -> ClaimDetails:
    """Adds what a receipt declares besides: of parts before a kill, and of numbers that were read.

    The coordinator's claim is made of the testimony alone.
    """
    reads = unaccounted(OWN, {what: told for what, told in receipt.declared if told})
    assumed = (what for what, told in receipt.declared if not told)
    return replace(
        checks,
        accesses=tuple(dict.fromkeys((*checks.accesses, *reads))),
        assumes=tuple(dict.fromkeys((*checks.assumes, *assumed))),
    )


def said(frame: Frame) -> Testimony:
    """Returns what a client says in a frame; FrameError BAD_FRAME where it is no testimony."""
    payload = bytes(frame.payload)
    told = strict_json.loads(payload, what="A testimony", code="BAD_FRAME", error=FrameError)
    try:
        found = Testimony.from_dict(told, "testimony")
        _ = found.receipt
        accounted = found.checks is not None and any(
            access.accounted_in for access in found.checks.accesses
        )
    except (CertificateError, PrivacyError) as error:
        raise frames.bad_frame(f"of {frame.sender} is no testimony ({error})") from error
    if accounted:
        raise frames.bad_frame(
            f"of {frame.sender} says of a self-test that noise accounts for what it read"
        )
    return found


def keep(folder: Path, frame: Frame) -> None:
    """Writes a client's frame as it came."""
    (folder / RECEIPTS).mkdir(exist_ok=True)
    atomic_files.write_file(folder / RECEIPTS / f"{frame.sender}.frame", frame.encoded)


def kept(receipts: Path, roster: Roster) -> dict[str, Frame]:
    """Returns the frames in which clients testified, by name, each signed by its client.

    Raises:
        FrameError: A file is no testimony that its client signed for this run and roster.
    """
    found = {}
    for party in roster.clients:
        path = receipts / f"{party.name}.frame"
        if not path.exists():
            continue
        frame = frames.decode(
            atomic_files.read_file(path, max_bytes=_MAX_BYTES),
            {party.name: roster.public_keys[party.name]},
            run=roster.run,
            roster=roster.digest,
            recipient=COORDINATOR,
        )
        if frame.phase != frames.RECEIPT:
            raise frames.bad_frame(f"of {party.name} ({frame.phase}) is no testimony")
        found[party.name] = frame
    return found


def digest_of(testified: Mapping[str, Frame]) -> str:
    """Returns the digest of clients' frames, 64 hexadecimal digits, as certificates have it."""
    each = {name: hashlib.sha256(frame.encoded).hexdigest() for name, frame in testified.items()}
    return hashlib.sha256(strict_json.dumps(each)).hexdigest()
