"""What an ONNX file says about itself, read by a walker of our own before anything runs it.

Refused are files that would make the runtime read other files or run other code: tensors whose
data stand outside (anywhere: subgraphs, functions, attributes, sparse tensors), operators of other
domains, compiled engine nodes, and files that onnxruntime would take for another format. The walker
reads tags and lengths only, so that weights cost nothing. Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hushdoc.errors import ArtifactError

ALLOWED_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Operators that onnxruntime itself brings."""

FORBIDDEN_OPERATORS = frozenset({"EPContext"})
"""Holds or names a compiled engine that an execution provider would run."""

MAX_FIELDS = 2_000_000
"""Fields that are walked; weights count as one."""

MAX_LEVELS = 64
"""Messages inside one another; protobuf itself stops at 100."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Kind(NamedTuple):
    """A message type: which fields hold messages, which texts, and which numbers are read."""

    name: str
    messages: Mapping[int, str] = {}
    texts: Mapping[int, str] = {}
    numbers: Mapping[int, str] = {}


_KINDS = {
    kind.name: kind
    for kind in (
        _Kind(
            "model",
            {7: "graph", 8: "opset", 14: "property", 20: "training", 25: "function"},
            numbers={1: "ir_version"},
        ),
        _Kind("graph", {1: "node", 5: "tensor", 15: "sparse"}),
        _Kind("node", {5: "attribute"}, texts={4: "operator", 7: "domain"}),
        _Kind(
            "attribute",
            {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
        ),
        _Kind("tensor", {13: "external"}, numbers={14: "data_location"}),
        _Kind("sparse", {1: "tensor", 2: "tensor"}),
        _Kind(
            "function",
            {7: "node", 9: "opset", 11: "attribute"},
            texts={10: "domain"},
        ),
        _Kind("training", {1: "graph", 2: "graph"}),
        _Kind("opset", texts={1: "domain"}),
        _Kind("property", texts={1: "key", 2: "value"}),
        _Kind("external"),
    )
}


def scan(content: bytes) -> dict[str, str]:
    """Returns the metadata properties of an ONNX file that is safe to hand to a runtime.

    Args:
        content: The file.

    Raises:
        ArtifactError: BAD_ONNX, CUSTOM_OP or EXTERNAL_DATA_NOT_LISTED.
    """
    if content[4:8] == b"ORTM":
        raise _bad_onnx("onnxruntime would read it as another format (ORT)")
    metadata: dict[str, str] = {}
    num_graphs = 0
    for kind, level, texts, numbers in _messages(content):
        _refuse_outside(kind, texts, numbers)
        if kind == "property":
            key = texts.get("key", "")
            if key in metadata:
                raise _bad_onnx(f"the metadata key {ascii(key)[:60]} is there twice")
            metadata[key] = texts.get("value", "")
        if kind == "graph" and level == 1:
            num_graphs += 1
    if num_graphs != 1:
        raise _bad_onnx(f"it holds {num_graphs} graphs, expected 1")
    return metadata


def _refuse_outside(kind: str, texts: Mapping[str, str], numbers: Mapping[str, int]) -> None:
    if kind == "external" or numbers.get("data_location", 0) != 0:
        raise ArtifactError(
            "The ONNX file has a tensor whose data stand in another file. The runtime would open "
            "it unchecked; export the model with its weights inside.",
            code="EXTERNAL_DATA_NOT_LISTED",
        )
    domain = texts.get("domain", "")
    if domain not in ALLOWED_DOMAINS or texts.get("operator") in FORBIDDEN_OPERATORS:
        raise ArtifactError(
            f"The ONNX file uses {ascii(texts.get('operator', 'operators'))[:60]} of the domain "
            f"{ascii(domain)[:60]}; allowed are the domains "
            f"{sorted(ALLOWED_DOMAINS)} without {sorted(FORBIDDEN_OPERATORS)}. Export it with "
            "standard operators.",
            code="CUSTOM_OP",
        )


def _messages(content: bytes) -> Iterator[tuple[str, int, dict[str, str], dict[str, int]]]:
    """Yields (kind, level, texts, numbers) of every message that matters."""
    waiting: list[tuple[str, int, memoryview]] = [("model", 0, memoryview(content))]
    budget = [MAX_FIELDS]
    while waiting:
        name, level, view = waiting.pop()
        if level > MAX_LEVELS:
            raise _bad_onnx(f"it is deeper than {MAX_LEVELS} levels")
        kind = _KINDS[name]
        texts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for field, wire, value in _fields(view, budget):
            if field in kind.messages:
                waiting.append((kind.messages[field], level + 1, _bytes(wire, value)))
            elif field in kind.texts:
                _keep_text(texts, kind.texts[field], _bytes(wire, value))
            elif field in kind.numbers:
                if not isinstance(value, int) or wire != _VARINT:
                    raise _bad_onnx(f"the field {kind.numbers[field]} is no number")
                # Of a repeated field the last counts, so one that is not zero is kept.
                numbers[kind.numbers[field]] = numbers.get(kind.numbers[field], 0) or value
        yield name, level, texts, numbers


def _keep_text(texts: dict[str, str], name: str, value: memoryview) -> None:
    if name in texts:
        raise _bad_onnx(f"the field {name} is there twice in one message")
    try:
        texts[name] = bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        raise _bad_onnx(f"the field {name} is not UTF-8") from None


def _bytes(wire: int, value: int | memoryview) -> memoryview:
    if wire != _BYTES or not isinstance(value, memoryview):
        raise _bad_onnx("a message stands where a number is")
    return value


def _fields(view: memoryview, budget: list[int]) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yields (field, wire type, value) of one message."""
    position, end = 0, len(view)
    while position < end:
        budget[0] -= 1
        if budget[0] < 0:
            raise _bad_onnx(f"it has more than {MAX_FIELDS} fields")
        tag, position = _varint(view, position, max_bytes=5)
        field, wire = tag >> 3, tag & 7
        if not 0 < field < 1 << 29:
            raise _bad_onnx(f"it has the field number {field}")
        if wire == _VARINT:
            number, position = _varint(view, position, max_bytes=10)
            yield field, wire, number
            continue
        if wire == _BYTES:
            length, position = _varint(view, position, max_bytes=5)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise _bad_onnx(f"it has the wire type {wire}")
        if length > end - position:
            raise _bad_onnx("it ends in the middle of a field")
        yield field, wire, view[position : position + length]
        position += length


def _varint(view: memoryview, position: int, *, max_bytes: int) -> tuple[int, int]:
    value = 0
    for index in range(max_bytes):
        if position + index >= len(view):
            raise _bad_onnx("it ends in the middle of a number")
        byte = view[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise _bad_onnx("it has a number that is too long")


def _bad_onnx(found: str) -> ArtifactError:
    return ArtifactError(
        f"The ONNX file is refused: {found}. Expected a plain ONNX model; export it again.",
        code="BAD_ONNX",
    )
