"""Frames: what parties of a federated run send one another, each signed by its sender.

A frame is a header in canonical JSON, a payload, and an Ed25519 signature of the header, which has
the payload's length and SHA-256 in it. So the signature is of the whole frame, and binds it to one
run, one roster, one round, one sender and one recipient. Frames know no transport and no clock.
What does not fit is a FrameError with a code of its own: it is dropped, named, and changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hushdoc.arguments import short_repr
from hushdoc.errors import FrameError, HushdocError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import Record, integer, matching, stored, word
from hushdoc.signing import keys as signing_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

VERSION = 1

EVERYBODY = "*"
"""Recipient of what the coordinator hands on to others as it was signed."""

HELLO = "hello"
MODEL = "model"
OPEN = "open"
KEYS = "keys"
ADVERTISE = "advertise"
SHARES = "shares"
DELIVER = "deliver"
VECTOR = "vector"
SURVIVORS = "survivors"
CONFIRM = "confirm"
REVEAL = "reveal"
ANSWER = "answer"
REFUSE = "refuse"
OUTCOME = "outcome"
RECEIPT = "receipt"
CLOSE = "close"
PHASES = (
    *(HELLO, MODEL, OPEN, KEYS, ADVERTISE, SHARES, DELIVER, VECTOR),
    *(SURVIVORS, CONFIRM, REVEAL, ANSWER, REFUSE, OUTCOME, RECEIPT, CLOSE),
)
"""Phases of a round in their order; nobody sends an earlier one after a later one."""

MAX_PAYLOAD = 1 << 30
"""Bytes of a payload, unless the receiver expects fewer."""

MAX_ROUND = 2**31 - 1

_MAX_HEADER = 1024
_LENGTH = 4
_SIGNATURE = 64
_DOMAIN = b"hushdoc federated frame v1\x00"
_NAME = "[a-z0-9][a-z0-9-]{0,39}"
_SHAPE = "a 4-byte length, a header in canonical JSON, the payload and 64 bytes of signature"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A message.

    Attributes:
        run: Name of the run, 32 hexadecimal digits.
        roster: SHA-256 of the roster, 64 hexadecimal digits.
        round: Number of the round, from 0.
        attempt: Number of the attempt at it, from 0.
        phase: One of PHASES.
        sender: Name of the party that signs.
        recipient: Name of the party it is for, or EVERYBODY.
        payload: What is said, in the phase's own form.
        encoded: The bytes that `decode` read it from; none in a frame that is to be sent.
    """

    run: str
    roster: str
    round: int
    attempt: int
    phase: str
    sender: str
    recipient: str
    payload: bytes | memoryview
    encoded: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class _Header(Record):
    v: int = stored(integer())
    run: str = stored(matching("[0-9a-f]{32}", "32 hexadecimal digits"))
    roster: str = stored(matching("[0-9a-f]{64}", "64 hexadecimal digits"))
    round: int = stored(integer())
    attempt: int = stored(integer())
    phase: str = stored(word(PHASES))
    sender: str = stored(matching(_NAME, "a party's name"))
    recipient: str = stored(matching(rf"\*|{_NAME}", "a party's name or *"))
    length: int = stored(integer())
    sha256: str = stored(matching("[0-9a-f]{64}", "64 hexadecimal digits"))

    def problem(self) -> str | None:
        if self.v != VERSION:
            return f"version {self.v}, expected {VERSION}"
        if max(self.round, self.attempt) > MAX_ROUND:
            return f"round {self.round}, attempt {self.attempt}, expected at most {MAX_ROUND}"
        return None


def encode(frame: Frame, key: signing_keys.PrivateKey) -> bytes:
    """Returns a frame as bytes, signed with its sender's Ed25519 key."""
    header = strict_json.dumps(
        _Header(
            v=VERSION,
            run=frame.run,
            roster=frame.roster,
            round=frame.round,
            attempt=frame.attempt,
            phase=frame.phase,
            sender=frame.sender,
            recipient=frame.recipient,
            length=len(frame.payload),
            sha256=hashlib.sha256(frame.payload).hexdigest(),
        ).to_dict()
    )
    signature = signing_keys.sign_message(_DOMAIN + header, key)
    return b"".join((len(header).to_bytes(_LENGTH), header, frame.payload, signature))


def decode(
    data: bytes,
    keys: Mapping[str, Ed25519PublicKey],
    *,
    run: str,
    roster: str,
    recipient: str,
    max_payload: int = MAX_PAYLOAD,
) -> Frame:
    """Returns the frame that these bytes are, if its sender signed it for this recipient.

    Args:
        data: What came in.
        keys: Of all parties that may send, by name.
        run: Name of the run that is going on.
        roster: Digest of the roster that was approved.
        recipient: Who reads it; frames for EVERYBODY are read too.
        max_payload: Bytes that the payload may have.

    Raises:
        FrameError: BAD_FRAME, OTHER_RUN, OTHER_RECIPIENT, UNKNOWN_SENDER or FRAME_NOT_SIGNED.
            Nobody is to blame for the first three: anybody may have sent them.
    """
    size = int.from_bytes(data[:_LENGTH])
    if not 0 < size <= min(_MAX_HEADER, len(data) - _LENGTH - _SIGNATURE):
        raise bad_frame(f"has {len(data)} bytes, of which {size} would be the header")
    head = data[_LENGTH : _LENGTH + size]
    header = _header(head)
    payload = memoryview(data)[_LENGTH + size : -_SIGNATURE]
    if header.length != len(payload) or len(payload) > max_payload:
        raise bad_frame(
            f"has a payload of {len(payload)} bytes and declares {header.length}, where at most "
            f"{max_payload} are read"
        )
    if (header.run, header.roster) != (run, roster):
        raise FrameError(
            f"A frame is of the run {header.run} under the roster {header.roster}; expected the "
            f"run {run} under {roster}. Approve one roster everywhere.",
            code="OTHER_RUN",
        )
    if header.recipient not in (recipient, EVERYBODY):
        raise FrameError(
            f"A frame is for {header.recipient}, and came to {recipient}.", code="OTHER_RECIPIENT"
        )
    _require_signed(header, head, data[-_SIGNATURE:], keys)
    if hashlib.sha256(payload).hexdigest() != header.sha256:
        raise bad_frame(f"of {header.sender} has another payload than was signed")
    return Frame(
        run=header.run,
        roster=header.roster,
        round=header.round,
        attempt=header.attempt,
        phase=header.phase,
        sender=header.sender,
        recipient=header.recipient,
        payload=payload,
        encoded=data,
    )


@dataclass(frozen=True, kw_only=True)
class Order:
    """What came last from each sender, so that nothing counts twice and nothing goes back.

    Attributes:
        last: Round, attempt, number of the phase and digest of each sender's last frame. It is
            plain data, for a state on the disk.
    """

    last: dict[str, tuple[int, int, int, str]] = field(default_factory=dict)

    def accept(self, frame: Frame) -> None:
        """Notes a frame that is later than all before it.

        Raises:
            FrameError: FRAME_REPLAYED, the last one again; FRAME_DOUBLED, another at the place of
                the last; FRAME_STALE, one from before it.
        """
        place = (frame.round, frame.attempt, PHASES.index(frame.phase))
        digest = hashlib.sha256(frame.payload).hexdigest()
        last = self.last.get(frame.sender)
        if last is not None and place <= last[:3]:
            said = f"A frame of {frame.sender} ({frame.phase}, round {frame.round})"
            if place < last[:3]:
                raise FrameError(
                    f"{said} comes after a later one, of round {last[0]}; it is dropped.",
                    code="FRAME_STALE",
                )
            if digest == last[3]:
                raise FrameError(f"{said} came before; it is dropped.", code="FRAME_REPLAYED")
            raise FrameError(
                f"{said} is the second at its place, and says something else than the first; it "
                "is dropped. Ask this party why: both are signed.",
                code="FRAME_DOUBLED",
            )
        self.last[frame.sender] = (*place, digest)


def bundle(parts: Iterable[bytes | memoryview]) -> bytes:
    """Returns several texts as one, each behind its length."""
    return b"".join(piece for part in parts for piece in (len(part).to_bytes(_LENGTH), part))


def unbundle(data: bytes | memoryview, *, most: int) -> list[bytes]:
    """Returns what `bundle` joined, up to `most` parts; FrameError BAD_FRAME for anything else."""
    parts: list[bytes] = []
    place = 0
    while place < len(data) and len(parts) < most:
        end = place + _LENGTH + int.from_bytes(data[place : place + _LENGTH])
        parts.append(bytes(data[place + _LENGTH : end]))
        place = end
    if place != len(data):
        raise bad_frame(f"bundles more than {most} parts, or one is cut off")
    return parts


def bad_frame(found: str) -> FrameError:
    """Returns the error for bytes that are no frame; `found` says what they are instead."""
    return FrameError(f"A frame {found}; expected {_SHAPE}.", code="BAD_FRAME")


def _header(head: bytes) -> _Header:
    data = strict_json.loads(head, what="The header", code="BAD_FRAME", error=FrameError)
    try:
        header = _Header.from_dict(data, "header")
    except HushdocError as error:
        raise FrameError(str(error), code="BAD_FRAME") from error
    if strict_json.dumps(data) != head:
        raise bad_frame("has a header that is not in canonical form")
    return header


def _require_signed(
    header: _Header, head: bytes, signature: bytes, keys: Mapping[str, Ed25519PublicKey]
) -> None:
    key = keys.get(header.sender)
    if key is None:
        raise FrameError(
            f"A frame says that it is of {short_repr(header.sender)}, who may send nothing here. "
            "Only parties of the roster are listened to.",
            code="UNKNOWN_SENDER",
        )
    public = key.public_bytes_raw()
    if not signing_keys.verifies(public, signing_keys.ED25519, signature, _DOMAIN + head):
        raise FrameError(
            f"A frame says that it is of {header.sender}, whose key did not sign it. Anybody may "
            "have sent it.",
            code="FRAME_NOT_SIGNED",
        )
