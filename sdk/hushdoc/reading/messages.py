"""Messages between a host and its reader process: a JSON object and some bytes, through a pipe.

Contract: nothing is unpickled, and no memory is taken for more than was sent. What a reader process
sends was made of a hostile file: whoever receives it checks it as he would check the file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from io import RawIOBase
from typing import Any

from hushdoc.arguments import MalformedError

MAX_JSON_BYTES = 2**30
"""A document of a million words takes a tenth of it."""

_LENGTHS = struct.Struct(">QQ")
_CHUNK = 2**20

Message = tuple[dict[str, Any], bytes]


def send(stream: RawIOBase, head: Mapping[str, Any], body: bytes = b"") -> None:
    """Writes a message to an unbuffered pipe; OSError where nobody reads it any more."""
    text = json.dumps(head).encode("ascii")
    if len(text) > MAX_JSON_BYTES:
        raise MalformedError(f"a message has {len(text)} bytes, more than {MAX_JSON_BYTES}")
    _write(stream, _LENGTHS.pack(len(text), len(body)) + text)
    _write(stream, body)


def receive(stream: RawIOBase, *, max_bytes: int) -> Message:
    """Returns the next message; EOFError where there is none, MalformedError for a wrong one."""
    length, body_length = _LENGTHS.unpack(_read(stream, _LENGTHS.size))
    if length > MAX_JSON_BYTES or body_length > max_bytes:
        raise MalformedError(f"a message announces {length} and {body_length} bytes")
    try:
        head = json.loads(_read(stream, length))
    except (ValueError, RecursionError) as error:
        raise MalformedError("a message is not JSON") from error
    if type(head) is not dict:
        raise MalformedError("a message is no JSON object")
    return head, _read(stream, body_length)


def _write(stream: RawIOBase, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[stream.write(left[:_CHUNK]) or 0 :]


def _read(stream: RawIOBase, length: int) -> bytes:
    parts = []
    while length:
        part = stream.read(min(length, _CHUNK))
        if not part:
            raise EOFError("The pipe was closed.")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
