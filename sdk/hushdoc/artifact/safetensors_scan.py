"""The tensors of a safetensors file, read by a parser of our own before it is used.

The header is strict JSON (the format's own reader lets keys of `__metadata__` come twice), its
tensors follow one another without hole or overlap up to the file's end, and no weight is NaN or
infinite. The file is gone through once, from its first byte to its last, a few rows at a time, so
memory does not grow with the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.artifact.scan_budget import MAX_HEADER_BYTES, ScanBudget
from hushdoc.artifact.signed_file import Memory, Source
from hushdoc.errors import ArtifactError
from hushdoc.serialization import strict_json

MAX_PROPERTIES = 1000
"""Keys of the metadata."""

MAX_AXES = 8

_METADATA = "__metadata__"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}", re.ASCII)
_CHUNK_BYTES = 1 << 18
_FEW_COLUMNS = 32
_FLOATS: Mapping[str, tuple[str, int]] = {
    "F64": ("<u8", 0x7FF0_0000_0000_0000),
    "F32": ("<u4", 0x7F80_0000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}
"""For each type of floats its bits as numpy reads them, and those that are all 1 in NaN and inf."""

_BYTES = "U8"
"""Weights of a table as integers, which a scale turns into floats; 0 means no weight."""

ITEM_BYTES: Mapping[str, int] = {
    **{name: int(bits[2:]) for name, (bits, _) in _FLOATS.items()},
    **{"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1},
}
"""Bytes of one number of each type that is accepted."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor of a file, from byte `start` to `stop`; `dtype` is one of ITEM_BYTES.

    `unfilled_rows` counts rows of zeros in a table of floats or signed bytes; it is None for what
    is no such table, or one whose rows are too long to be a table of features.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    unfilled_rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class TensorFile:
    """Tensors of a file, in their order, and its metadata."""

    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]


def scan(content: bytes | Source, budget: ScanBudget | None = None) -> TensorFile:
    """Returns tensors and metadata of a file whose weights are all finite; else BAD_SAFETENSORS.

    The files of one artifact share a budget; a file alone has one of its own.
    """
    budget = budget or ScanBudget()
    source = Memory(content) if isinstance(content, bytes) else content
    header_bytes = int.from_bytes(_exactly(source, 8), "little")
    if header_bytes > min(budget.header_bytes, source.size - 8):
        raise _bad(
            f"its header has {header_bytes} bytes, expected no more than the file and at most "
            f"{MAX_HEADER_BYTES} in all files of an artifact"
        )
    budget.header_bytes -= header_bytes
    data = _object(_exactly(source, header_bytes))
    metadata = _metadata(data.pop(_METADATA, {}))
    tensors = _laid_out(data, start=8 + header_bytes, end=source.size)
    return TensorFile(tensors=tuple(_read(source, tensors)), metadata=metadata)


def require_table(contents: TensorFile, name: str, *, rows: int, columns: int) -> None:
    """Raises BAD_SAFETENSORS unless the file holds a filled table of the declared shape.

    A row of zeros reveals that nothing was learned about a hash, which is what filling hides.
    """
    table = next((tensor for tensor in contents.tensors if tensor.name == name), None)
    if table is None:
        raise _bad(f"it has no table {short_repr(name)}")
    if table.shape != (rows, columns) or table.unfilled_rows is None:
        raise _bad(
            f"the table '{name}' has the shape {list(table.shape)} and the type {table.dtype}, "
            f"declared are floats or bytes of the shape {[rows, columns]}"
        )
    if table.unfilled_rows:
        raise _bad(f"{table.unfilled_rows} of {rows} rows of the table '{name}' are not filled")


def _object(header: bytes) -> dict[str, Any]:
    data = strict_json.loads(
        header,
        what="The header of the safetensors file",
        code="BAD_SAFETENSORS",
        error=ArtifactError,
        max_bytes=MAX_HEADER_BYTES,
    )
    if not isinstance(data, dict) or not header.startswith(b"{"):
        raise _bad("its header is no JSON object")
    return data


def _metadata(data: Any) -> Mapping[str, str]:
    if (
        not isinstance(data, dict)
        or len(data) > MAX_PROPERTIES
        or not all(isinstance(value, str) for value in data.values())
    ):
        raise _bad(f"its metadata is no object of up to {MAX_PROPERTIES} texts")
    return data


def _laid_out(data: Mapping[str, Any], *, start: int, end: int) -> list[Tensor]:
    """Returns the tensors in their order in the file, which they must fill."""
    tensors = sorted(
        (_tensor(name, item, start) for name, item in data.items()),
        key=lambda tensor: (tensor.start, tensor.stop),
    )
    reached = start
    for tensor in tensors:
        if tensor.start != reached:
            raise _bad(f"the tensor '{tensor.name}' begins at {tensor.start}, expected {reached}")
        reached = tensor.stop
    if reached != end:
        raise _bad(f"its tensors end at {reached}, the file at {end}")
    return tensors


def _tensor(name: str, data: Any, start: int) -> Tensor:
    if _NAME.fullmatch(name) is None:
        raise _bad(f"a tensor is called {short_repr(name)}")
    match data:
        case {
            "dtype": str(dtype),
            "shape": [*shape],
            "data_offsets": [begin, stop],
            **other,
        } if not other and len(shape) <= MAX_AXES and _whole(*shape, begin, stop):
            pass
        case _:
            raise _bad(f"the tensor '{name}' is not described by dtype, shape and data_offsets")
    if dtype not in ITEM_BYTES:
        raise _bad(f"the tensor '{name}' has the type {short_repr(dtype)}")
    if stop - begin != prod(shape) * ITEM_BYTES[dtype]:
        raise _bad(f"the tensor '{name}' of the shape {shape} has {stop - begin} bytes of {dtype}")
    return Tensor(
        name=name, dtype=dtype, shape=tuple(shape), start=start + begin, stop=start + stop
    )


def _whole(*values: Any) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _read(source: Source, tensors: list[Tensor]) -> Iterator[Tensor]:
    """Yields every tensor once its weights have been looked at."""
    for tensor in tensors:
        if tensor.dtype in _FLOATS or tensor.dtype == _BYTES:
            yield _read_weights(source, tensor)
            continue
        if source.skip(tensor.stop - tensor.start) < tensor.stop - tensor.start:
            raise _ended()
        yield tensor


def _read_weights(source: Source, tensor: Tensor) -> Tensor:
    # Artifacts without a table of floats need no numpy.
    import numpy as np

    bits, special = _FLOATS.get(tensor.dtype, ("i1", 0))
    item_bytes = ITEM_BYTES[tensor.dtype]
    columns = tensor.shape[1] if len(tensor.shape) == 2 else 1
    is_table = len(tensor.shape) == 2 and 0 < columns * item_bytes <= _CHUNK_BYTES
    step = columns * item_bytes if is_table else item_bytes
    # A float is zero whatever its sign; a byte has no bit to spare.
    weight_bits = (1 << (8 * item_bytes - 1)) - 1 if special else -1
    unfilled = 0
    for chunk in _chunks(source, tensor.stop - tensor.start, step):
        weights = np.frombuffer(chunk, bits)
        if special and ((weights & special) == special).any():
            raise _bad(f"the tensor '{tensor.name}' holds a weight that is NaN or infinite")
        if is_table:
            rows = (weights & weight_bits).reshape(-1, columns)
            # Column by column is many times faster than numpy's way along short rows.
            any_bit = reduce(np.bitwise_or, rows.T) if columns <= _FEW_COLUMNS else rows.any(axis=1)
            unfilled += len(rows) - int(np.count_nonzero(any_bit))
    return replace(tensor, unfilled_rows=unfilled if is_table else None)


def _chunks(source: Source, num_bytes: int, step: int) -> Iterator[memoryview]:
    """Yields the next bytes in parts of whole steps; a part holds until the next is asked for."""
    buffer = memoryview(bytearray(min(num_bytes, _CHUNK_BYTES // step * step)))
    while num_bytes:
        chunk = buffer[:num_bytes]
        _fill(source, chunk)
        yield chunk
        num_bytes -= len(chunk)


def _exactly(source: Source, num_bytes: int) -> bytes:
    content = bytearray(num_bytes)
    _fill(source, memoryview(content))
    return bytes(content)


def _fill(source: Source, buffer: memoryview) -> None:
    while len(buffer):
        got = source.readinto(buffer)
        if got == 0:
            raise _ended()
        buffer = buffer[got:]


def _ended() -> ArtifactError:
    return _bad("it ends in the middle of a tensor")


def _bad(found: str) -> ArtifactError:
    return ArtifactError(
        f"The safetensors file is refused: {found}. Expected finite weights as the safetensors "
        "format lays them out; export the model again.",
        code="BAD_SAFETENSORS",
    )
