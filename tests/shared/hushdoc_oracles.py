"""Second opinions: what libraries of others read of the same bytes.

Each answers in plain data, so that two readings can be held against one another.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class OnnxFacts:
    """What the onnx package finds in a file.

    Attributes:
        num_graphs: One or none: protobuf merges what comes twice.
        properties: The metadata's keys and values, in their order.
        external: Tensors anywhere whose data stand, or might stand, outside.
        operators: (domain, operator) of every node anywhere.
        domains: Every other domain that is named: operator sets and functions.
    """

    num_graphs: int
    properties: tuple[tuple[str, str], ...]
    external: int
    operators: frozenset[tuple[str, str]]
    domains: frozenset[str]


def onnx_facts(content: bytes) -> OnnxFacts | None:
    """Returns what onnx finds anywhere in a file, or None where it can't parse it."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_from_string(content)
    except (DecodeError, UnicodeDecodeError):
        return None
    external, operators, domains = 0, set(), set()
    for message in _messages(model):
        match message.DESCRIPTOR.name:
            case "TensorProto":
                outside = message.data_location != onnx.TensorProto.DEFAULT
                external += outside or len(message.external_data) > 0
            case "NodeProto":
                operators.add((message.domain, message.op_type))
            case "OperatorSetIdProto" | "FunctionProto":
                domains.add(message.domain)
    return OnnxFacts(
        num_graphs=int(model.HasField("graph")),
        properties=tuple((item.key, item.value) for item in model.metadata_props),
        external=external,
        operators=frozenset(operators),
        domains=frozenset(domains),
    )


def _messages(message: Any) -> Iterator[Any]:
    """Yields a protobuf message and all inside it, whatever the schema calls them."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if _is_repeated(field) else (value,):
                yield from _messages(inner)


def _is_repeated(field: Any) -> bool:
    # Newer versions of protobuf have a property instead of the label.
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED) if repeated is None else bool(repeated)


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What the safetensors package finds in a file.

    Attributes:
        shapes: Type and shape of every tensor.
        metadata: Free texts; of keys that come twice the last.
        finite: Whether every weight is a finite number.
        unfilled: Rows of nothing but zeros in tensors of two axes, by name.
    """

    shapes: Mapping[str, tuple[str, tuple[int, ...]]]
    metadata: Mapping[str, str]
    finite: bool
    unfilled: Mapping[str, int]


def table_facts(content: bytes) -> TableFacts | None:
    """Returns what safetensors and numpy find in a file, or None where they can't read it."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(content)
    except SafetensorError:
        return None
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    shapes, finite, unfilled = {}, True, {}
    for name, tensor in tensors:
        kind, shape = tensor["dtype"], tuple(tensor["shape"])
        shapes[name] = (kind, shape)
        data = bytes(tensor["data"])
        if kind == "BF16":
            # Sixteen bits more make it a number of 32 bits that numpy knows.
            halves = np.frombuffer(data, "<u2").astype("<u4") << 16
            weights = halves.view("<f4")
        elif kind in kinds:
            weights = np.frombuffer(data, kinds[kind])
        else:
            continue
        finite = finite and bool(np.isfinite(weights).all())
        if len(shape) == 2:
            unfilled[name] = int((weights.reshape(shape) == 0).all(axis=1).sum())
    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    return TableFacts(shapes=shapes, metadata=metadata, finite=finite, unfilled=unfilled)


def without_duplicates(content: bytes) -> Any:
    """Returns what json.loads reads of UTF-8, and raises where a key comes twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key comes twice")
        return found

    return json.loads(content.decode("utf-8"), object_pairs_hook=unique)


def same(read: Any, written: Any) -> bool:
    """Returns whether two pieces of plain data say the same; true is no 1 here.

    What is read may be rounded upwards to six digits, as promises are.
    """
    if isinstance(read, bool) or isinstance(written, bool):
        return read is written
    if isinstance(read, int | float) and isinstance(written, int | float):
        return math.isclose(read, written, rel_tol=2e-5, abs_tol=0.0)
    if isinstance(read, dict) and isinstance(written, dict):
        return read.keys() == written.keys() and all(same(read[key], written[key]) for key in read)
    if isinstance(read, list | tuple) and isinstance(written, list | tuple):
        return len(read) == len(written) and all(map(same, read, written))
    return type(read) is type(written) and bool(read == written)
