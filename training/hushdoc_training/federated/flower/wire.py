"""Lists of byte strings over a socket, between a party's resident process and its courier.

A message is its length (8 bytes, big-endian), then for each byte string its length (4 bytes) and
itself. Whoever holds the other end is of this machine, yet no word of theirs is believed: lengths
are capped and must add up, and whoever stops in the middle is given up after a while. Nothing but
the standard library is imported here, because couriers run in Flower's environment.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable

MAX_BYTES = 1 << 30
"""Of one message; more than 64 frames of 16 million bytes each."""

MAX_PARTS = 4096

PATIENCE = 60.0
"""Seconds for the rest of a message whose first byte has come, and for taking one."""

RECORD = "frames"
"""The name of the one record, and of the one value in it, that a Flower message has."""

WRONG_CERTIFICATE = 3
"""A node's exit status where the server shows a certificate of another authority."""

_TOTAL = struct.Struct(">Q")
_PART = struct.Struct(">I")
_CHUNK = 1 << 20


class WireError(ConnectionError):
    """Says what the other end sent or failed to send; the line is of no use afterwards."""


class Line:
    """One end of a connected stream socket; both ends may send at any time."""

    def __init__(
        self,
        end: socket.socket,
        *,
        max_bytes: int = MAX_BYTES,
        patience: float = PATIENCE,
    ) -> None:
        """Takes the socket over, and closes it with the line."""
        end.setblocking(False)
        self._end = end
        self._max_bytes = max_bytes
        self._patience = patience
        self._arrived = bytearray()

    def fileno(self) -> int:
        """Returns the socket's descriptor, for `select`."""
        return self._end.fileno()

    def close(self) -> None:
        """Closes the line; the other end sees its end."""
        self._end.close()

    def send(self, parts: Iterable[bytes]) -> None:
        """Sends a message; a WireError unless the other end takes it within the patience.

        What the other end sends meanwhile is kept, so that two who send at once both go on.
        """
        left = memoryview(_packed(list(parts), self._max_bytes))
        until = time.monotonic() + self._patience
        while left:
            readable, writable = self._ready(until, writes=True)
            if not (readable or writable):
                raise WireError(f"The other end took nothing for {self._patience:g} seconds.")
            if readable:
                self._take()
            if writable:
                try:
                    left = left[self._end.send(left[:_CHUNK]) :]
                except BlockingIOError:
                    continue
                except OSError as problem:
                    raise WireError(f"The other end is gone: {problem}.") from problem

    def receive(self, *, seconds: float) -> list[bytes] | None:
        """Returns the next message, or None where none has begun after so many seconds.

        Raises:
            WireError: The other end is gone, its message is not sound or stopped in the middle.
        """
        until = time.monotonic() + seconds
        begun = False
        while not self._is_whole():
            if self._arrived and not begun:
                begun, until = True, time.monotonic() + self._patience
            if self._ready(until)[0]:
                self._take()
            elif begun:
                raise WireError(f"A message stopped for {self._patience:g} seconds in the middle.")
            else:
                return None
        total = _TOTAL.unpack_from(self._arrived)[0]
        message = bytes(memoryview(self._arrived)[_TOTAL.size : _TOTAL.size + total])
        del self._arrived[: _TOTAL.size + total]
        return _unpacked(message)

    def _is_whole(self) -> bool:
        if len(self._arrived) < _TOTAL.size:
            return False
        total: int = _TOTAL.unpack_from(self._arrived)[0]
        if total > self._max_bytes:
            raise WireError(f"A message has {total} bytes, and at most {self._max_bytes} are read.")
        return len(self._arrived) >= _TOTAL.size + total

    def _ready(self, until: float, *, writes: bool = False) -> tuple[bool, bool]:
        """Waits until the socket can be read, or written where asked; both False: it took long."""
        seconds = max(0.0, until - time.monotonic())
        readable, writable, _ = select.select([self], [self] if writes else [], [], seconds)
        return bool(readable), bool(writable)

    def _take(self) -> None:
        """Reads what is there; no more than a message of the largest size is ever kept."""
        try:
            chunk = self._end.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as problem:
            raise WireError(f"The other end is gone: {problem}.") from problem
        if not chunk:
            raise WireError("The other end closed the line.")
        self._arrived += chunk
        if len(self._arrived) > self._max_bytes + _TOTAL.size + _CHUNK:
            raise WireError(f"More than {self._max_bytes} bytes came that nobody asked for.")


def _packed(parts: list[bytes], max_bytes: int) -> bytes:
    total = sum(_PART.size + len(part) for part in parts)
    if len(parts) > MAX_PARTS or total > max_bytes:
        raise WireError(
            f"A message has {len(parts)} parts and {total} bytes; at most {MAX_PARTS} and "
            f"{max_bytes} are sent."
        )
    pieces = [_TOTAL.pack(total)]
    for part in parts:
        pieces += (_PART.pack(len(part)), part)
    return b"".join(pieces)


def _unpacked(message: bytes) -> list[bytes]:
    parts: list[bytes] = []
    place = 0
    while place < len(message):
        if len(parts) == MAX_PARTS:
            raise WireError(f"A message has more than {MAX_PARTS} parts.")
        if len(message) - place < _PART.size:
            raise WireError("A message ends within the length of a part.")
        length = _PART.unpack_from(message, place)[0]
        place += _PART.size
        if length > len(message) - place:
            raise WireError(f"A part of {length} bytes is longer than what is left of its message.")
        parts.append(message[place : place + length])
        place += length
    return parts
