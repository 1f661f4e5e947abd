"""The metadata of an ONNX file, read by a parser of our own before anything runs it.

Refused are files that would make the runtime read other files or run other code: tensors whose
data are outside (anywhere: subgraphs, functions, attributes, sparse tensors), operators of other
domains, compiled engine nodes, and files that onnxruntime would take for another format. External
data are refused even in a signed file: onnxruntime would open it by its name, after it was checked.
The parser goes through the file once, from its first byte to its last, and keeps nothing but one
buffer, the texts of the messages it is in, and the metadata, so memory does not grow with the file.
Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hushdoc.arguments import short_repr
from hushdoc.artifact.scan_budget import MAX_FIELDS, ScanBudget
from hushdoc.artifact.signed_file import Memory, Source
from hushdoc.errors import ArtifactError

ALLOWED_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Operators that onnxruntime itself brings."""

FORBIDDEN_OPERATORS = frozenset({"EPContext"})
"""Holds or names a compiled engine that an execution provider would run."""

MAX_LEVELS = 64
"""Messages inside one another; protobuf itself stops at 100."""

MAX_BYTES = 2**31 - 1
"""Protobuf reads no larger message."""

MAX_TEXT_BYTES = 1 << 16
"""One name, or one key or value of the metadata."""

MAX_METADATA_BYTES = 1 << 20
"""All keys and values of the metadata."""

MAX_PROPERTIES = 1000
"""Keys of the metadata."""

_BUFFER_BYTES = 1 << 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _MessageType(NamedTuple):
    """A message type: which fields hold messages, which texts, and which numbers are read."""

    name: str
    messages: Mapping[int, str] = {}
    texts: Mapping[int, str] = {}
    numbers: Mapping[int, str] = {}


_TYPES = {
    item.name: item
    for item in (
        _MessageType(
            "model",
            {7: "graph", 8: "opset", 14: "property", 20: "training", 25: "function"},
            numbers={1: "ir_version"},
        ),
        _MessageType("graph", {1: "node", 5: "tensor", 15: "sparse"}),
        _MessageType("node", {5: "attribute"}, texts={4: "operator", 7: "domain"}),
        _MessageType(
            "attribute",
            {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
        ),
        _MessageType("tensor", {13: "external"}, numbers={14: "data_location"}),
        _MessageType("sparse", {1: "tensor", 2: "tensor"}),
        _MessageType(
            "function",
            {7: "node", 9: "opset", 11: "attribute"},
            texts={10: "domain"},
        ),
        _MessageType("training", {1: "graph", 2: "graph"}),
        _MessageType("opset", texts={1: "domain"}),
        _MessageType("property", texts={1: "key", 2: "value"}),
        _MessageType("external"),
    )
}


@dataclass(kw_only=True, slots=True)
class _Message:
    """A message that the parser is in, and what it has read of it."""

    type: _MessageType
    level: int
    end: int
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


def scan(content: bytes | Source, budget: ScanBudget | None = None) -> dict[str, str]:
    """Returns the metadata properties of an ONNX file that is safe to pass to a runtime.

    The files of one artifact share a budget; a file alone has one of its own.
    """
    source = Memory(content) if isinstance(content, bytes) else content
    if source.size > MAX_BYTES:
        raise _bad_onnx(f"it has {source.size} bytes, more than {MAX_BYTES}")
    cursor = _Cursor(source)
    if cursor.peek(8)[4:] == b"ORTM":
        raise _bad_onnx("onnxruntime would read it as another format (ORT)")
    metadata = _Metadata()
    num_graphs = 0
    for message in _messages(cursor, budget or ScanBudget()):
        _refuse_outside(message.type.name, message.texts, message.numbers)
        if message.type.name == "property":
            metadata.add(message.texts.get("key", ""), message.texts.get("value", ""))
        if message.type.name == "graph" and message.level == 1:
            num_graphs += 1
    if num_graphs != 1:
        raise _bad_onnx(f"it holds {num_graphs} graphs, expected 1")
    return metadata.found


class _Metadata:
    """The metadata properties so far, of which there may be only so many."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._num_bytes = 0

    def add(self, key: str, value: str) -> None:
        if key in self.found:
            raise _bad_onnx(f"the metadata key {short_repr(key)} is there twice")
        self._num_bytes += len(key.encode()) + len(value.encode())
        if len(self.found) == MAX_PROPERTIES or self._num_bytes > MAX_METADATA_BYTES:
            raise _bad_onnx(
                f"its metadata has more than {MAX_PROPERTIES} keys or {MAX_METADATA_BYTES} bytes"
            )
        self.found[key] = value


def _refuse_outside(name: str, texts: Mapping[str, str], numbers: Mapping[str, int]) -> None:
    if name == "external" or numbers.get("data_location", 0) != 0:
        raise ArtifactError(
            "The ONNX file has a tensor whose data are in another file. The runtime would open "
            "it unchecked; export the model with its weights inside.",
            code="EXTERNAL_DATA_NOT_LISTED",
        )
    domain = texts.get("domain", "")
    if domain not in ALLOWED_DOMAINS or texts.get("operator") in FORBIDDEN_OPERATORS:
        raise ArtifactError(
            f"The ONNX file uses {short_repr(texts.get('operator', 'operators'))} of the domain "
            f"{short_repr(domain)}; allowed are the domains "
            f"{sorted(ALLOWED_DOMAINS)} without {sorted(FORBIDDEN_OPERATORS)}. Export it with "
            "standard operators.",
            code="CUSTOM_OP",
        )


def _messages(cursor: _Cursor, budget: ScanBudget) -> Iterator[_Message]:
    """Yields every message that matters, each once it has been read to its end."""
    open_messages = [_Message(type=_TYPES["model"], level=0, end=cursor.size)]
    while open_messages:
        message = open_messages[-1]
        if cursor.offset == message.end:
            yield open_messages.pop()
            continue
        budget.fields -= 1
        if budget.fields < 0:
            raise _bad_onnx(f"all ONNX files of an artifact have more than {MAX_FIELDS} fields")
        inner = _read_field(cursor, message)
        if inner is not None:
            open_messages.append(inner)


def _read_field(cursor: _Cursor, message: _Message) -> _Message | None:
    """Reads one field, or only its beginning if it is a message that matters: returns that."""
    tag = cursor.varint(message.end, max_bytes=5)
    number, wire = tag >> 3, tag & 7
    schema = message.type
    if not 0 < number < 1 << 29:
        raise _bad_onnx(f"it has the field number {number}")
    if wire == _VARINT:
        _keep_number(message, number, cursor.varint(message.end, max_bytes=10))
        return None
    length = _length(cursor, wire, message.end)
    if number in schema.numbers:
        raise _bad_onnx(f"the field {schema.numbers[number]} is no number")
    if number in schema.messages or number in schema.texts:
        if wire != _BYTES:
            raise _bad_onnx("a number is in the place of a message")
        if number in schema.messages:
            return _inside(message, schema.messages[number], cursor.offset + length)
        _keep_text(message.texts, schema.texts[number], cursor, length)
        return None
    cursor.skip(length)
    return None


def _inside(message: _Message, name: str, end: int) -> _Message:
    if message.level == MAX_LEVELS:
        raise _bad_onnx(f"it is deeper than {MAX_LEVELS} levels")
    return _Message(type=_TYPES[name], level=message.level + 1, end=end)


def _length(cursor: _Cursor, wire: int, end: int) -> int:
    """Returns how many bytes the field has that begins here."""
    if wire == _BYTES:
        length = cursor.varint(end, max_bytes=5)
    elif wire in (_FIXED32, _FIXED64):
        length = 4 if wire == _FIXED32 else 8
    else:
        raise _bad_onnx(f"it has the wire type {wire}")
    if length > end - cursor.offset:
        raise _bad_onnx("it ends in the middle of a field")
    return length


def _keep_number(message: _Message, number: int, value: int) -> None:
    if number in message.type.messages or number in message.type.texts:
        raise _bad_onnx("a number is in the place of a message")
    name = message.type.numbers.get(number)
    if name is not None:
        # Of a repeated field the last counts, so one that is not zero is kept.
        message.numbers[name] = message.numbers.get(name, 0) or value


def _keep_text(texts: dict[str, str], name: str, cursor: _Cursor, length: int) -> None:
    if name in texts:
        raise _bad_onnx(f"the field {name} is there twice in one message")
    if length > MAX_TEXT_BYTES:
        raise _bad_onnx(f"the field {name} has {length} bytes, more than {MAX_TEXT_BYTES}")
    try:
        texts[name] = cursor.take(length).decode("utf-8")
    except UnicodeDecodeError:
        raise _bad_onnx(f"the field {name} is not UTF-8") from None


class _Cursor:
    """A place in a source, with as much of what follows as fits into one buffer."""

    def __init__(self, source: Source) -> None:
        self.size = source.size
        self.offset = 0
        self._source = source
        self._buffer = bytearray(_BUFFER_BYTES)
        self._at = self._filled = 0

    def peek(self, num_bytes: int) -> bytes:
        """Returns what follows at the very beginning, without moving on."""
        while self._filled < min(num_bytes, self.size):
            self._fill()
        return bytes(self._buffer[:num_bytes])

    def varint(self, end: int, *, max_bytes: int) -> int:
        """Returns the number that begins here and ends before `end`."""
        value = 0
        for index in range(max_bytes):
            if self.offset == end:
                raise _bad_onnx("it ends in the middle of a number")
            if self._at == self._filled:
                self._at = self._filled = 0
                self._fill()
            byte = self._buffer[self._at]
            self._at += 1
            self.offset += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise _bad_onnx("it has a number that is too long")

    def take(self, length: int) -> bytes:
        """Returns the next bytes."""
        found = bytearray()
        while len(found) < length:
            if self._at == self._filled:
                self._at = self._filled = 0
                self._fill()
            part = self._buffer[self._at : min(self._filled, self._at + length - len(found))]
            found += part
            self._at += len(part)
        self.offset += length
        return bytes(found)

    def skip(self, length: int) -> None:
        """Passes over the next bytes."""
        buffered = min(length, self._filled - self._at)
        self._at += buffered
        rest = length - buffered
        if rest and self._source.skip(rest) < rest:
            raise _bad_onnx("it ends in the middle of a field")
        self.offset += length

    def _fill(self) -> None:
        """Reads behind what the buffer holds."""
        got = self._source.readinto(memoryview(self._buffer)[self._filled :])
        if got == 0:
            raise _bad_onnx("it ends in the middle of a field")
        self._filled += got


def _bad_onnx(found: str) -> ArtifactError:
    return ArtifactError(
        f"The ONNX file is refused: {found}. Expected a plain ONNX model; export it again.",
        code="BAD_ONNX",
    )
