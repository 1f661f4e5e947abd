"""A graph's weights of int8 as uint8, for processors that multiply those alone exactly.

Numbers and zero points grow by 128, so that every product is the one it was. ONNX Runtime can do
this by itself, but ends the process up to version 1.29 where a product has no zero point, and
refuses a graph in which products share a weight (ADR 23). Field numbers are those of onnx.proto.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

READERS = {
    b"DequantizeLinear": {0, 2},
    b"DynamicQuantizeMatMul": {1, 3},
    b"MatMulInteger": {1, 3},
    b"MatMulIntegerToFloat": {1, 5},
}
"""Operators that read uint8 as well as int8: their inputs for a weight and its zero point."""

_UINT8, _INT8 = 2, 3

Buffer = bytes | mmap.mmap
_Bytes = bytes | memoryview
_Field = tuple[int, int | memoryview, memoryview]
"""A field's number, its value, and all that it is written in."""


class _UnchangedError(Exception):
    """The graph is to stay as it is."""


def of(content: Buffer) -> bytes | None:
    """Returns an ONNX file with its int8 weights as uint8; None where it is to be read as it is.

    That is where it has none, where something reads one of them that may need int8, and where it is
    no ONNX file, which ONNX Runtime will say.
    """
    try:
        fields = list(_fields(memoryview(content)))
        if [number for number, _, _ in fields].count(7) != 1:
            return None
        return b"".join(
            piece
            for number, value, whole in fields
            for piece in (_message(7, _graph(value)) if number == 7 else [whole])
        )
    except _UnchangedError:
        return None


def _graph(content: int | memoryview) -> list[_Bytes]:
    fields = list(_fields(content))
    tensors = [list(_fields(value)) for number, value, _ in fields if number == 5]
    weights = {
        name
        for tensor in tensors
        if [value for number, value, _ in tensor if number == 2] == [_INT8]
        for name in _texts(tensor, 8)
    }
    for number, value, _ in fields:
        if number == 1:
            _check_reader(list(_fields(value)), weights)
        elif number in (11, 12, 13) and weights & {*_texts(_fields(value), 1)}:
            raise _UnchangedError
    if not weights:
        raise _UnchangedError
    pieces: list[_Bytes] = []
    remaining = iter(tensors)
    for number, _, whole in fields:
        tensor = next(remaining) if number == 5 else []
        changed = weights & {*_texts(tensor, 8)}
        pieces += _message(5, _grown(tensor)) if changed else [whole]
    return pieces


def _check_reader(node: Sequence[_Field], weights: set[bytes]) -> None:
    """Raises unless a node reads weights as READERS do, each with its zero point."""
    read = {place for place, name in enumerate(_texts(node, 1)) if name in weights}
    if read and [read] != [READERS.get(name) for name in _texts(node, 4)]:
        raise _UnchangedError
    for number, value, _ in node:
        if number == 5 and any(inner in (6, 11) for inner, _, _ in _fields(value)):
            raise _UnchangedError  # a graph in an attribute may read any weight


def _grown(tensor: Sequence[_Field]) -> list[_Bytes]:
    """Returns a tensor of int8 as one of uint8, of numbers that are larger by 128."""
    numbers = bytearray()
    for number, value, _ in tensor:
        if number == 9 and not isinstance(value, int):
            numbers += value
        elif number == 5:
            numbers += bytes(one & 255 for one in _integers(value))
    grown = np.frombuffer(numbers, np.uint8) ^ np.uint8(128)
    kept: list[_Bytes] = [whole for number, _, whole in tensor if number not in (2, 5, 9)]
    return [*kept, bytes((2 << 3, _UINT8)), *_message(9, [grown.data])]


def _message(number: int, pieces: Sequence[_Bytes]) -> list[_Bytes]:
    """Returns a field of bytes, without joining them."""
    length, prefix = sum(map(len, pieces)), bytearray([number << 3 | 2])
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    return [bytes(prefix) + bytes([length]), *pieces]


def _texts(fields: Iterable[_Field], wanted: int) -> list[bytes]:
    return [
        bytes(value)
        for number, value, _ in fields
        if number == wanted and not isinstance(value, int)
    ]


def _integers(value: int | memoryview) -> Iterator[int]:
    """Yields the numbers of a field, packed or one alone."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        one, at = _integer(value, at)
        yield one


def _fields(message: int | memoryview) -> Iterator[_Field]:
    if isinstance(message, int):
        raise _UnchangedError
    at = 0
    while at < len(message):
        begin = at
        tag, at = _integer(message, at)
        wire = tag & 7
        if wire == 0:
            number, at = _integer(message, at)
            yield tag >> 3, number, message[begin:at]
            continue
        length, at = _integer(message, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, -1), at)
        if not 0 <= length <= len(message) - at:
            raise _UnchangedError
        yield tag >> 3, message[at : at + length], message[begin : at + length]
        at += length


def _integer(content: memoryview, at: int) -> tuple[int, int]:
    """Returns the number that begins at a place, and where it ends."""
    value = 0
    for place, byte in enumerate(content[at : at + 10]):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise _UnchangedError
