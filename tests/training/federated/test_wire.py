"""The line between a resident and its courier: whole messages, or an error within its patience."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc_training.federated.flower import wire
from hushdoc_training.federated.flower.wire import Line, WireError

PATIENCE = 0.2


def lines(max_bytes: int = 1 << 24, patience: float = PATIENCE) -> tuple[Line, Line]:
    here, there = socket.socketpair()
    return (
        Line(here, max_bytes=max_bytes, patience=patience),
        Line(there, max_bytes=max_bytes, patience=patience),
    )


@pytest.fixture
def pair() -> Iterator[tuple[Line, Line]]:
    found = lines()
    yield found
    for line in found:
        line.close()


@given(messages=st.lists(st.lists(st.binary(max_size=50), max_size=5), max_size=4))
def test_what_is_sent_arrives_message_by_message(messages: list[list[bytes]]) -> None:
    here, there = lines(patience=10)
    for message in messages:
        here.send(message)
    assert [there.receive(seconds=1) for _ in messages] == messages
    assert there.receive(seconds=0) is None
    here.close()
    there.close()


def test_both_ends_may_send_much_at_once() -> None:
    pair, content, got = lines(patience=10), bytes(8 << 20), {}

    def talk(line: Line, number: int) -> None:
        line.send([content])
        got[number] = line.receive(seconds=5)

    other = threading.Thread(target=talk, args=(pair[1], 1))
    other.start()
    talk(pair[0], 0)
    other.join()
    for line in pair:
        line.close()
    assert got == {0: [content], 1: [content]}


def message(*parts: bytes) -> bytes:
    body = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return struct.pack(">Q", len(body)) + body


FAULTS = {
    "closed before a message": (b"", True, "closed"),
    "closed within the length": (message(b"frame")[:5], True, "closed"),
    "closed within a part": (message(b"frame")[:-1], True, "closed"),
    "silent within the length": (message(b"frame")[:5], False, "stopped"),
    "silent within a part": (message(b"frame")[:-1], False, "stopped"),
    "longer than is read": (struct.pack(">Q", 1001), False, "1001 bytes"),
    "longer than a number of the wire says": (b"\xff" * 8, False, "at most 1000"),
    "a part longer than its message": (struct.pack(">QI", 4, 9), False, "A part of 9"),
    "a message that ends within a length": (struct.pack(">Q", 3) + bytes(3), False, "ends within"),
    "very many parts": (message(*[b""] * 200), False, "more than 100"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_message_is_an_error_and_soon(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_PARTS", 100)
    sent, closes, says = FAULTS[fault]
    here, there = socket.socketpair()
    line = Line(there, max_bytes=1000, patience=PATIENCE)
    here.sendall(sent)
    if closes:
        here.close()
    begun = time.monotonic()
    with pytest.raises(WireError, match=says):
        line.receive(seconds=5)
    assert time.monotonic() - begun < 2
    line.close()
    here.close()


def test_whoever_takes_nothing_is_given_up(pair: tuple[Line, Line]) -> None:
    with pytest.raises(WireError, match="took nothing"):
        pair[0].send([bytes(8 << 20)])


def test_whoever_sends_unasked_without_end_is_given_up() -> None:
    def flood(line: Line) -> None:
        try:
            while True:
                line.send([bytes(1 << 20)])
        finally:
            line.close()

    with ThreadPoolExecutor(2) as pool:
        floods = [pool.submit(flood, line) for line in lines(max_bytes=4 << 20, patience=10)]
        errors = [found.exception() for found in floods]
    assert all(isinstance(error, WireError) for error in errors)
    assert any("nobody asked for" in str(error) for error in errors)


@pytest.mark.parametrize(
    "parts", [[bytes(1001)], [b""] * (wire.MAX_PARTS + 1)], ids=["bytes", "parts"]
)
def test_too_much_is_not_sent(parts: list[bytes]) -> None:
    here, there = lines(max_bytes=1000)
    with pytest.raises(WireError, match="at most"):
        here.send(parts)
    assert there.receive(seconds=0) is None


def test_a_line_whose_other_end_is_gone_sends_nothing(pair: tuple[Line, Line]) -> None:
    pair[1].close()
    with pytest.raises(WireError):
        pair[0].send([b"frame"])
