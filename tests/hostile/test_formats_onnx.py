"""ONNX that the trusted key signed, and that would do more than be read.

Other files, other code, other readers. Built byte by byte, so that nothing but the check stands
between it and the runtime.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hushdoc_corruption import PREPROCESSING, Scene, acceptances, case, refusals, sealed_model

ID = "0123456789abcdef0123456789abcdef"

# ONNX: field numbers of onnx.proto are spelled out where they are used.

Build = Any
Make = Callable[[Build], bytes]


def _node(b: Build, *, operator: str = "Add", domain: str = "", inside: bytes = b"") -> bytes:
    return b.message(1, b.message(4, operator), b.message(7, domain), inside)  # type: ignore[no-any-return]


def _external(b: Build, location: str = "weights.bin") -> bytes:
    """The inside of a tensor whose data stand in a file."""
    entry = b.message(13, b.message(1, "location"), b.message(2, location))
    return b.number(2, 1) + b.message(8, "w") + entry + b.number(14, 1)  # type: ignore[no-any-return]


def _in_places(b: Build, tensor: bytes, node: bytes) -> dict[str, Callable[[], bytes]]:
    """Every place of a model where a tensor, or a node, can stand."""
    message, onnx = b.message, b.onnx
    subgraph = lambda inside: message(1, message(4, "If"), message(5, message(6, inside)))  # noqa: E731
    found = {
        "initializer": lambda: onnx(graph=message(5, tensor)),
        "constant": lambda: onnx(graph=_node(b, inside=message(5, message(5, tensor)))),
        "list-of-constants": lambda: onnx(graph=_node(b, inside=message(5, message(10, tensor)))),
        "sparse-values": lambda: onnx(graph=message(15, message(1, tensor))),
        "sparse-indices": lambda: onnx(graph=message(15, message(2, tensor))),
        "sparse-constant": lambda: onnx(
            graph=_node(b, inside=message(5, message(22, message(1, tensor))))
        ),
        "list-of-sparse-constants": lambda: onnx(
            graph=_node(b, inside=message(5, message(23, message(2, tensor))))
        ),
        "subgraph": lambda: onnx(graph=subgraph(message(5, tensor))),
        "subgraph-of-a-subgraph": lambda: onnx(graph=subgraph(subgraph(message(5, tensor)))),
        "function": lambda: onnx(
            message(25, message(1, "f"), message(7, message(5, message(5, tensor))))
        ),
        "default-of-a-function": lambda: onnx(message(25, message(11, message(5, tensor)))),
        "training-graph": lambda: onnx(message(20, message(2, message(5, tensor)))),
    }
    if not node:
        return found
    return {
        "node": lambda: onnx(graph=node),
        "subgraph": lambda: onnx(graph=subgraph(node)),
        "list-of-subgraphs": lambda: onnx(graph=_node(b, inside=message(5, message(11, node)))),
        "function": lambda: onnx(message(25, message(7, node[2:]))),
        "training-graph": lambda: onnx(message(20, message(1, node))),
    }


EXTERNAL_PLACES = (
    "initializer",
    "constant",
    "list-of-constants",
    "sparse-values",
    "sparse-indices",
    "sparse-constant",
    "list-of-sparse-constants",
    "subgraph",
    "subgraph-of-a-subgraph",
    "function",
    "default-of-a-function",
    "training-graph",
)
NODE_PLACES = ("node", "subgraph", "list-of-subgraphs", "function", "training-graph")


def _external_in(place: str) -> Make:
    return lambda b: _in_places(b, _external(b), b"")[place]()


def _foreign_in(place: str) -> Make:
    node = lambda b: _node(b, operator="Run", domain="com.evil")  # noqa: E731
    return lambda b: _in_places(b, b"", node(b))[place]()


def _tensor(*parts: Callable[[Build], bytes]) -> Make:
    return lambda b: b.onnx(graph=b.message(5, b"".join(part(b) for part in parts)))


def _operator(operator: str, domain: str) -> Make:
    return lambda b: b.onnx(graph=_node(b, operator=operator, domain=domain))


def _properties(*pairs: tuple[str, str]) -> Make:
    """Metadata with keys as they are given, also twice."""
    return lambda b: b.onnx(
        *(b.message(14, b.message(1, key), b.message(2, value)) for key, value in pairs)
    )


def _deep(subgraphs: int) -> Make:
    """A subgraph in a subgraph in a subgraph: graph, node and attribute are a level each."""

    def make(b: Build) -> bytes:
        inside = b""
        for _ in range(subgraphs):
            inside = b.message(1, b.message(5, b.message(6, inside)))
        return b.onnx(graph=inside)  # type: ignore[no-any-return]

    return make


def _many_fields(b: Build) -> bytes:
    """Two million empty nodes: four megabytes that would cost a parser hundreds."""
    return b.onnx(graph=b"\x0a\x00" * 2_000_000)  # type: ignore[no-any-return]


def _appended(content: bytes) -> Make:
    return lambda b: b.onnx() + content


def _instead(content: bytes) -> Make:
    return lambda b: content


def _with_id(identity: str) -> Make:
    return lambda b: b.onnx(metadata={"hushdoc.certificate_id": identity})


ONNX: dict[str, dict[str, Make]] = {
    "EXTERNAL_DATA_NOT_LISTED": {
        **{f"external-data-in-{place}": _external_in(place) for place in EXTERNAL_PLACES},
        # onnx.load would look for the file; onnxruntime opens it relative to the working directory.
        "external-data-of-a-signed-file": _tensor(lambda b: _external(b, "labels.json")),
        "external-data-outside": _tensor(lambda b: _external(b, "../../etc/passwd")),
        # onnxruntime takes this place for an address in its own memory.
        "external-data-in-memory": _tensor(lambda b: _external(b, "*/_ORT_MEM_ADDR_/*")),
        "external-data-without-a-place": _tensor(lambda b: b.number(14, 1)),
        # A place without the flag: onnx reads it as no external data, other readers may not.
        "external-data-without-the-flag": _tensor(
            lambda b: b.message(13, b.message(1, "location"))
        ),
        # protobuf keeps the last value of a field that is there twice.
        "external-data-flag-set-and-unset": _tensor(lambda b: b.number(14, 1) + b.number(14, 0)),
        # protobuf cuts a number to 32 bits.
        "external-data-flag-past-32-bits": _tensor(lambda b: b.number(14, (1 << 32) | 1)),
    },
    "BAD_ONNX": {
        "external-data-flag-of-another-type": _tensor(lambda b: b.message(14, b"\1")),
        # protobuf keeps the last of two; what is read here must be what is run.
        "domain-twice-in-one-node": lambda b: b.onnx(
            graph=_node(b, domain="com.evil", inside=b.message(7, ""))
        ),
        "operator-twice-in-one-node": lambda b: b.onnx(
            graph=_node(b, operator="EPContext", inside=b.message(4, "Add"))
        ),
        # onnx.load takes keys of the metadata that come twice.
        "metadata-id-twice": _properties(("hushdoc.certificate_id", "f" * 32)),
        "metadata-id-twice-the-same": _properties(("hushdoc.certificate_id", ID)),
        "metadata-note-twice": _properties(("a", "1"), ("a", "2")),
        "metadata-with-1001-keys": _properties(*((f"k{n}", "") for n in range(1000))),
        "metadata-of-a-megabyte": _properties(*((f"k{n}", "x" * 60_000) for n in range(20))),
        "metadata-value-of-100-kb": _properties(("a", "x" * 100_000)),
        "metadata-not-utf-8": lambda b: b.onnx(b.message(14, b.message(1, b"\xff"))),
        "subgraphs-past-the-limit": _deep(22),
        "subgraphs-1000-deep": _deep(1000),
        "no-graph": lambda b: b.number(1, 8),
        # protobuf merges a message that comes twice: two graphs are one.
        "two-graphs": lambda b: b.onnx(b.message(7, b.message(2, "second"))),
        "graph-is-a-number": lambda b: b.onnx(b.number(7, 1)),
        "nothing": _instead(b""),
        "no-onnx": _instead(b"no model"),
        "pickle": _instead(pickle.dumps({"a": 1})),
        "format-of-onnxruntime": _instead(b"\x18\0\0\0ORTM" + b"\0" * 64),
        "zip": _instead(b"PK\3\4" + b"\0" * 64),
        "cut": lambda b: b.onnx()[:-1],
        "cut-in-the-graph": lambda b: b.onnx()[:20],
        "byte-after": _appended(b"\0"),
        "number-of-eleven-bytes": _appended(b"\x08" + b"\xff" * 10 + b"\x01"),
        "number-without-end": _appended(b"\x08" + b"\xff" * 3),
        "length-past-the-end": _appended(b"\x12\x7f"),
        "length-of-2-to-the-34": _appended(b"\x12\xff\xff\xff\xff\x7f"),
        "field-number-zero": _appended(b"\x02\x00"),
        "field-number-too-large": _appended(b"\xfa\xff\xff\xff\x7f\x00"),
        "group": _appended(b"\x0b\x0c"),
        "unknown-wire-type": _appended(b"\x0f\x00"),
    },
    "CUSTOM_OP": {
        **{f"custom-operator-in-{place}": _foreign_in(place) for place in NODE_PLACES},
        "custom-domain-of-operators": lambda b: b.onnx(b.message(8, b.message(1, "com.evil"))),
        "custom-domain-of-a-function": lambda b: b.onnx(b.message(25, b.message(10, "com.evil"))),
        "custom-domain-imported-by-a-function": lambda b: b.onnx(
            b.message(25, b.message(9, b.message(1, "com.evil")))
        ),
        "custom-domain-of-training": _operator("Add", "ai.onnx.preview.training"),
        "custom-domain-with-a-space": _operator("Add", "ai.onnx "),
        "custom-domain-in-capitals": _operator("Add", "AI.ONNX"),
        "custom-domain-in-lookalike-characters": _operator("Add", "\u0430i.onnx"),
        "custom-domain-with-nul": _operator("Add", "ai.onnx\0"),
        "compiled-engine": _operator("EPContext", "com.microsoft"),
        "compiled-engine-of-the-standard": _operator("EPContext", ""),
    },
    "EMBEDDED_METADATA_MISSING": {
        "metadata-absent": lambda b: b.onnx(metadata={}),
    },
    "EMBEDDED_METADATA_MISMATCH": {
        "metadata-of-another-certificate": _with_id("f" * 32),
        "metadata-id-in-capitals": _with_id(ID.upper()),
        "metadata-id-with-nul": _with_id(ID + "\0"),
        "metadata-id-empty": _with_id(""),
    },
}


def _entry_of_another_name(scene: Scene) -> None:
    """The entry is in the signed format, whatever it is called."""
    identity = dataclasses.replace(scene.build.certify().model, entry="model.bin")
    manifest = {**scene.build.MANIFEST, "entry": "model.bin", "preprocessing": PREPROCESSING}
    scene.seal(
        scene.build.certify(model=identity),
        scene.files(
            onnx__model_DOT_onnx=None,
            model_DOT_bin=_foreign_in("node")(scene.build),
            hushdoc_DOT_json=json.dumps(manifest).encode(),
        ),
    )


CASES = (
    *(
        case(f"formats/onnx-{name}", sealed_model(make), code)
        for code, makes in ONNX.items()
        for name, make in makes.items()
    ),
    # Walking up to the limit takes a second or more, so it is done once.
    case(
        "formats/onnx-two-million-nodes", sealed_model(_many_fields), "BAD_ONNX", ways=("verify",)
    ),
    case(
        "formats/onnx-second-model-with-custom-operator",
        sealed_model(_foreign_in("node"), "onnx__second_DOT_ONNX"),
        "CUSTOM_OP",
    ),
    case("formats/onnx-entry-of-another-name", _entry_of_another_name, "CUSTOM_OP"),
    case(
        "formats/onnx-second-model-of-another-certificate",
        sealed_model(_with_id("f" * 32), "more_DOT_onnx"),
        "EMBEDDED_METADATA_MISMATCH",
    ),
)


test_is_refused = refusals(CASES)


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "subgraphs": sealed_model(_deep(21)),
        "properties": sealed_model(_properties(("a", "1"), ("b", "2"))),
        "unknown-fields": sealed_model(
            lambda b: b.onnx(b.number(1000, 7), b.message(1001, "unknown to us"))
        ),
        "operator-of-the-runtime": sealed_model(_operator("FastGelu", "com.microsoft")),
        "data-inside": sealed_model(_tensor(lambda b: b.number(14, 0))),
    }
)


ACCEPTED_BY_ONNX = (
    "external-data-without-the-flag",
    "external-data-flag-set-and-unset",
    "custom-operator-in-subgraph",
    "domain-twice-in-one-node",
    "metadata-id-twice",
    "two-graphs",
    "no-graph",
    "nothing",
)


@pytest.mark.parametrize("name", ACCEPTED_BY_ONNX)
def test_onnx_reads_what_is_refused_here(name: str, make_scene: Callable[[], Scene]) -> None:
    import onnx

    make = next(makes[name] for makes in ONNX.values() if name in makes)
    assert onnx.load_from_string(make(make_scene().build)) is not None
