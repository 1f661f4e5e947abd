"""Frames: what is read, what is refused and by which code, and in which order frames may come."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.errors import FrameError
from hushdoc_training.federated import frames
from hushdoc_training.federated.frames import Frame, Order, decode, encode

RUN, ROSTER = "ab" * 16, "cd" * 32
SECRETS = {
    name: Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    for name in ("coordinator", "anna", "boris")
}
KEYS = {name: secret.public_key() for name, secret in SECRETS.items()}
FRAME = Frame(
    run=RUN,
    roster=ROSTER,
    round=3,
    attempt=0,
    phase="vector",
    sender="anna",
    recipient="coordinator",
    payload=b"\x00\x01payload",
)
SENT = encode(FRAME, SECRETS["anna"])


def read(data: bytes, **changed: object) -> Frame:
    terms = {"run": RUN, "roster": ROSTER, "recipient": "coordinator", **changed}
    return decode(data, KEYS, **terms)  # type: ignore[arg-type]


def header_of(data: bytes) -> bytes:
    return data[4 : 4 + int.from_bytes(data[:4])]


def forged(change: Callable[[bytes], bytes], *, signer: str = "anna") -> bytes:
    """Returns the frame with another header under a signature that holds."""
    head = change(header_of(SENT))
    signature = SECRETS[signer].sign(b"hushdoc federated frame v1\x00" + head)
    return len(head).to_bytes(4) + head + bytes(FRAME.payload) + signature


def with_key(key: str, value: object) -> bytes:
    def change(head: bytes) -> bytes:
        data = {**json.loads(head), key: value}
        return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()

    return forged(change)


def test_a_frame_comes_back_as_it_was_sent() -> None:
    found = read(SENT)
    assert found == FRAME
    assert found.encoded == SENT


def test_an_independent_check_of_the_signature_over_header_and_payload() -> None:
    head = header_of(SENT)
    KEYS["anna"].verify(SENT[-64:], b"hushdoc federated frame v1\x00" + head)
    declared = json.loads(head)
    assert declared["sha256"] == hashlib.sha256(FRAME.payload).hexdigest()
    assert declared["length"] == len(FRAME.payload)
    assert (declared["v"], declared["roster"], declared["sender"]) == (1, ROSTER, "anna")


def test_what_is_for_everybody_is_read_by_everybody() -> None:
    sent = encode(replace(FRAME, recipient=frames.EVERYBODY), SECRETS["anna"])
    assert read(sent, recipient="boris").sender == "anna"


FAULTS = {
    "nothing": (b"", "BAD_FRAME"),
    "a length alone": (SENT[:4], "BAD_FRAME"),
    "cut off": (SENT[:-1], "BAD_FRAME"),
    "cut off in its header": (SENT[:60], "BAD_FRAME"),
    "one byte more": (SENT + b"\x00", "BAD_FRAME"),
    "a header of no bytes": (b"\x00" * 4 + SENT[4:], "BAD_FRAME"),
    "a header that is larger than the frame": (b"\xff" * 4 + SENT[4:], "BAD_FRAME"),
    "a header that is no JSON": (forged(lambda head: head[:-1] + b"!"), "BAD_FRAME"),
    "a header with a blank": (forged(lambda head: head.replace(b":", b": ", 1)), "BAD_FRAME"),
    "a header with a key twice": (
        forged(lambda head: head[:-1] + b',"v":1}'),
        "BAD_FRAME",
    ),
    "a header with another key": (with_key("note", "x"), "BAD_FRAME"),
    "another version": (with_key("v", 2), "BAD_FRAME"),
    "an unknown phase": (with_key("phase", "gossip"), "BAD_FRAME"),
    "a round below 0": (with_key("round", -1), "BAD_FRAME"),
    "a round without end": (with_key("round", 2**31), "BAD_FRAME"),
    "an attempt without end": (with_key("attempt", 2**53 - 1), "BAD_FRAME"),
    "a round that is no integer": (with_key("round", 1.5), "BAD_FRAME"),
    "a name with a slash": (with_key("sender", "../anna"), "BAD_FRAME"),
    "another length": (with_key("length", 3), "BAD_FRAME"),
    "another payload": (SENT.replace(b"payload", b"PAYLOAD"), "BAD_FRAME"),
    "another run": (with_key("run", "00" * 16), "OTHER_RUN"),
    "another roster": (with_key("roster", "00" * 32), "OTHER_RUN"),
    "for somebody else": (with_key("recipient", "boris"), "OTHER_RECIPIENT"),
    "of nobody whom the roster names": (with_key("sender", "mallory"), "UNKNOWN_SENDER"),
    "signed by another party": (forged(lambda head: head, signer="boris"), "FRAME_NOT_SIGNED"),
    "another header than was signed": (
        SENT.replace(b'"round":3', b'"round":4'),
        "FRAME_NOT_SIGNED",
    ),
    "another signature": (SENT[:-64] + bytes(64), "FRAME_NOT_SIGNED"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_frame_that_does_not_fit_is_refused_by_its_own_code(fault: str) -> None:
    data, code = FAULTS[fault]
    with pytest.raises(FrameError) as refused:
        read(data)
    assert refused.value.code == code


def test_an_oversized_payload_is_refused() -> None:
    read(SENT, max_payload=len(FRAME.payload))
    with pytest.raises(FrameError, match="at most 8 are read"):
        read(SENT, max_payload=len(FRAME.payload) - 1)


def test_a_party_whose_key_is_not_given_is_not_listened_to() -> None:
    left = {name: key for name, key in KEYS.items() if name != "anna"}
    with pytest.raises(FrameError) as refused:
        decode(SENT, left, run=RUN, roster=ROSTER, recipient="coordinator")
    assert refused.value.code == "UNKNOWN_SENDER"
    assert "revoked" not in str(refused.value)  # no revocation list is read here


@given(st.integers(0, len(SENT) - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(place: int, change: int) -> None:
    data = bytearray(SENT)
    data[place] ^= change
    with pytest.raises(FrameError):
        read(bytes(data))


LATER = {
    "a later phase": {"phase": "confirm"},
    "a later attempt": {"attempt": 1, "phase": "open"},
    "a later round": {"round": 4, "phase": "open"},
    "the first of another party": {"sender": "boris", "phase": "open"},
}
EARLIER = {
    "the same again": ({}, "FRAME_REPLAYED"),
    "another at the same place": ({"payload": b"other"}, "FRAME_DOUBLED"),
    "an earlier phase": ({"phase": "keys"}, "FRAME_STALE"),
    "an earlier round": ({"round": 2, "attempt": 9, "phase": "answer"}, "FRAME_STALE"),
}


@pytest.mark.parametrize("change", LATER)
def test_what_is_later_is_accepted(change: str) -> None:
    order = Order()
    order.accept(FRAME)
    order.accept(replace(FRAME, **LATER[change]))  # type: ignore[arg-type]


@pytest.mark.parametrize("change", EARLIER)
def test_what_is_not_later_is_refused_and_changes_nothing(change: str) -> None:
    changed, code = EARLIER[change]
    order = Order()
    order.accept(FRAME)
    before = dict(order.last)
    with pytest.raises(FrameError) as refused:
        order.accept(replace(FRAME, **changed))  # type: ignore[arg-type]
    assert refused.value.code == code
    assert order.last == before


@given(st.lists(st.binary(max_size=9), max_size=5))
def test_bundles_come_apart_as_they_were(parts: list[bytes]) -> None:
    joined = frames.bundle(parts)
    assert frames.unbundle(joined, most=5) == parts
    for data in (joined + b"\x00", joined[:-1] if joined else b"\x00\x00\x00\x01"):
        with pytest.raises(FrameError):
            frames.unbundle(data, most=5)
    with pytest.raises(FrameError):
        frames.unbundle(joined + frames.bundle([b""] * 6), most=5)
