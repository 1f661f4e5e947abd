"""The ONNX walker: what it reads of sound files, and what it refuses anywhere in a graph."""

from __future__ import annotations

import tracemalloc
from types import ModuleType

import pytest

from hushdoc.artifact import onnx_scan
from hushdoc.artifact.signed_file import Memory
from hushdoc.errors import ArtifactError


def code_of(content: bytes) -> str:
    with pytest.raises(ArtifactError) as caught:
        onnx_scan.scan(content)
    return caught.value.code


def test_metadata_is_read(build: ModuleType) -> None:
    content = build.onnx(metadata={"hushdoc.certificate_id": "x", "note": "é"})
    assert onnx_scan.scan(content) == {"hushdoc.certificate_id": "x", "note": "é"}
    assert onnx_scan.scan(build.onnx(metadata={})) == {}


def test_the_onnx_package_reads_the_same(build: ModuleType) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(build.onnx())
    assert model.graph.node[0].op_type == "Identity"
    helper = onnx.helper
    nested = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "inner", [], [], [])
    node = helper.make_node("If", ["x"], ["y"], then_branch=nested, else_branch=nested)
    graph = helper.make_graph([node], "outer", [], [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(made, {"hushdoc.certificate_id": "id"})
    assert onnx_scan.scan(made.SerializeToString()) == {"hushdoc.certificate_id": "id"}


@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml", "com.microsoft"])
def test_the_runtimes_own_operators_are_accepted(build: ModuleType, domain: str) -> None:
    node = build.message(1, build.message(4, "Gelu"), build.message(7, domain))
    onnx_scan.scan(build.onnx(graph=node))


def bombs(build: ModuleType) -> dict[str, bytes]:
    message, number = build.message, build.number
    return {
        "truncated": build.onnx()[:-3],
        "end of group": build.onnx(build.varint(30 << 3 | 4)),
        "long tag": build.onnx(b"\x88\x80\x80\x80\x80\x00\x08"),
        "key twice in one": build.onnx(message(14, message(1, "a"), message(1, "b"))),
        "no UTF-8": build.onnx(graph=message(1, message(4, b"\xff"))),
        "text as number": build.onnx(graph=message(1, number(4, 1))),
        "text as eight bytes": build.onnx(graph=message(1, build.varint(4 << 3 | 1) + b"x" * 8)),
        "graph as four bytes": build.onnx(build.varint(7 << 3 | 5) + b"x" * 4),
        "field beyond its message": build.onnx(message(7, build.varint(9 << 3 | 2) + b"\x50")),
        "number beyond its message": build.onnx(message(7, build.varint(9 << 3) + b"\x80")),
        "long key": build.onnx(message(14, message(1, "k" * ((1 << 16) + 1)))),
        "long operator": build.onnx(graph=message(1, message(4, "o" * 70_000))),
    }


def test_everything_else_is_refused(build: ModuleType) -> None:
    for name, content in bombs(build).items():
        assert code_of(content) == "BAD_ONNX", name


def test_a_million_metadata_keys_cost_neither_time_nor_memory(build: ModuleType) -> None:
    content = build.onnx(build.message(14, b"\x0a\x01") * 1_000_000)
    many = build.onnx(*(build.message(14, build.message(1, str(key))) for key in range(200_000)))
    tracemalloc.start()
    try:
        assert code_of(content) == "BAD_ONNX"
        assert code_of(many) == "BAD_ONNX"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


class Trickle:
    """A source that gives as little as it likes and remembers how much was asked of it."""

    def __init__(self, content: bytes, step: int) -> None:
        self._memory = Memory(content)
        self._step = step
        self.size = len(content)
        self.passed = 0

    def readinto(self, buffer: memoryview) -> int:
        got = self._memory.readinto(buffer[: self._step])
        self.passed += got
        return got

    def skip(self, num_bytes: int) -> int:
        got = self._memory.skip(num_bytes)
        self.passed += got
        return got


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 1 << 20])
def test_a_source_is_read_once_to_its_end_in_parts_of_any_size(
    build: ModuleType, step: int
) -> None:
    weight = build.message(5, build.message(9, b"\xff" * 200_000))
    content = build.onnx(graph=weight)
    source = Trickle(content, step)
    assert onnx_scan.scan(source) == onnx_scan.scan(content)
    assert source.passed == len(content)
    for name, bomb in bombs(build).items():
        if len(bomb) < 100_000:
            with pytest.raises(ArtifactError) as caught:
                onnx_scan.scan(Trickle(bomb, step))
            assert caught.value.code == "BAD_ONNX", name


def test_a_source_that_ends_too_early_is_refused(build: ModuleType) -> None:
    source = Trickle(build.onnx()[:-3], 10)
    source.size += 3
    with pytest.raises(ArtifactError) as caught:
        onnx_scan.scan(source)
    assert caught.value.code == "BAD_ONNX"


def test_what_protobuf_can_not_read_is_refused_unread() -> None:
    source = Trickle(b"", 1)
    source.size = 1 << 31
    with pytest.raises(ArtifactError, match="more than 2147483647"):
        onnx_scan.scan(source)


def test_weights_are_skipped_and_not_walked(build: ModuleType) -> None:
    weight = build.message(5, build.message(9, b"\xff" * 5_000_000))
    assert onnx_scan.scan(build.onnx(graph=weight))
