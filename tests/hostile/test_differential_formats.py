"""Models to two readers: onnx and safetensors read alike what we accept, and find it harmless."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hushdoc_corruption import attempt
from hushdoc_damage import damages
from hushdoc_mutation import COLUMNS, ROWS, TableToy
from hushdoc_oracles import OnnxFacts, onnx_facts, table_facts

from hushdoc.artifact import onnx_scan, safetensors_scan
from hushdoc.errors import ArtifactError, HushdocError
from hushdoc.runtime.session import Session

DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}

# ONNX: our walker against the onnx package, and onnxruntime where that can't parse.


def _models(build: ModuleType) -> list[bytes]:
    """Returns sound models: the toy, and one with all that a graph may hold."""
    from onnx import TensorProto, helper

    def graph(name: str) -> Any:
        node = helper.make_node("Identity", ["x"], [f"{name}-y"])
        return helper.make_graph(
            [node], name, [], [helper.make_tensor_value_info(f"{name}-y", TensorProto.FLOAT, [2])]
        )

    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    value = helper.make_tensor("v", TensorProto.INT64, [1], [7])
    nodes = [
        helper.make_node("Constant", [], ["k"], value=value),
        helper.make_node("Add", ["x", "w"], ["s"]),
        helper.make_node("If", ["c"], ["b"], then_branch=graph("one"), else_branch=graph("other")),
        helper.make_node("Gelu", ["s"], ["y"], domain="com.microsoft", note="text"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]
    made = helper.make_model(
        helper.make_graph(nodes, "all", inputs, outputs, [weight]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        producer_name="tests",
    )
    helper.set_model_props(made, {"hushdoc.certificate_id": "0" * 32, "note": "\u00e9"})
    return [made.SerializeToString(), build.onnx(metadata={"hushdoc.certificate_id": "0" * 32})]


def _harmless(facts: OnnxFacts) -> bool:
    return (
        facts.num_graphs == 1
        and facts.external == 0
        and facts.domains | {domain for domain, _ in facts.operators} <= DOMAINS
        and "EPContext" not in {operator for _, operator in facts.operators}
        and len(dict(facts.properties)) == len(facts.properties)
    )


STRICTER_ONNX: dict[str, str] = {
    "there twice in one message": "protobuf keeps the last; other readers the first",
    "graphs, expected 1": "protobuf merges a graph that comes twice",
    "a number is in the place": "protobuf skips a field of another type; other readers may not",
    "is no number": "protobuf skips a field of another type; other readers may not",
    "is not UTF-8": "names are text to us, and bytes to protobuf in version 2",
    "the wire type": "groups, which ONNX has none of",
    "too long": "protobuf cuts tags and lengths of more bits than it needs",
    "the field number": "no field of ONNX has it",
    "ends in the middle": "in a field that protobuf skips as unknown",
}


def test_onnx_reads_every_model_that_we_accept_and_finds_it_as_harmless(
    build: ModuleType,
) -> None:
    tally: Counter[str] = Counter()
    unreadable: list[bytes] = []
    for content in damages(_models(build), 6000, 6):
        facts = onnx_facts(content)
        ours, refused = attempt(lambda content=content: onnx_scan.scan(content))
        if refused is not None:
            harmless = facts is not None and _harmless(facts)
            known = [reason for reason in STRICTER_ONNX if reason in str(refused)]
            meant = refused.code in ("EXTERNAL_DATA_NOT_LISTED", "CUSTOM_OP")
            assert not harmless or known or meant, refused
            tally["stricter" if harmless else "both refuse"] += 1
            continue
        if facts is None:
            unreadable.append(content)
            continue
        assert _harmless(facts), content
        assert ours == dict(facts.properties)
        tally["both read"] += 1
    assert tally["both read"] > 300
    assert tally["both refuse"] > 1000
    # What we skip as nobody's business may be no message to protobuf: nobody can load that.
    assert len(unreadable) < 1000
    for content in unreadable[:60]:
        with pytest.raises(ArtifactError):
            Session(content)


# Safetensors: our reader against the safetensors package and numpy.

STRICTER_TABLES: dict[str, str] = {
    "twice in one object": "safetensors keeps the last of two keys",
    "NaN or infinite": "safetensors hands any weight on",
    "a tensor is called": "names that could be paths or steer a terminal",
    "not described by": "keys that safetensors ignores, more axes than a table has",
    "has the type": "types of numbers that no artifact has",
    "no JSON object": "blanks before the header",
    "no object of up to": "more than a thousand keys",
    "beyond 2": "a number that other readers hold as a double",
    "begins at": "empty tensors in another order",
    "has the shape": "another table than stated",
}


def test_safetensors_reads_every_file_that_we_accept(build: ModuleType, tmp_path: Path) -> None:
    toy = TableToy(build, tmp_path, "toy")
    sound = [toy.files()["table.safetensors"], _two_tensors()]
    tally: Counter[str] = Counter()
    for content in damages(sound, 5000, 7):
        facts = table_facts_or_none(content)
        ours, refused = attempt(lambda content=content: safetensors_scan.scan(content))
        if refused is not None:
            known = any(reason in str(refused) for reason in STRICTER_TABLES)
            assert facts is None or known, refused
            tally["both refuse" if facts is None else "stricter"] += 1
            continue
        assert facts is not None, content
        assert {item.name: (item.dtype, item.shape) for item in ours.tensors} == facts.shapes
        assert ours.metadata == facts.metadata
        assert facts.finite
        assert {
            item.name: item.unfilled_rows
            for item in ours.tensors
            if item.unfilled_rows is not None and len(item.shape) == 2
        } == facts.unfilled
        tally["both read"] += 1
    assert tally["both read"] > 300
    assert tally["both refuse"] > 1000
    assert tally["stricter"] > 20


def table_facts_or_none(content: bytes) -> Any:
    """Metadata that json can't read, though safetensors can, count as read."""
    try:
        return table_facts(content)
    except (ValueError, RecursionError):
        return "read, but not by json"


def _two_tensors() -> bytes:
    from numpy import arange, float16, float32, int64
    from safetensors.numpy import save

    return save(
        {
            "halves": arange(1, 13, dtype=float16).reshape(3, 4),
            "table": arange(1, 33, dtype=float32).reshape(ROWS, COLUMNS),
            "whole": arange(5, dtype=int64),
        },
        metadata={"hushdoc.certificate_id": "0" * 32},
    )


def test_every_reason_to_be_stricter_is_stated() -> None:
    assert all(STRICTER_ONNX.values())
    assert all(STRICTER_TABLES.values())


def test_the_oracle_of_onnx_sees_what_is_wrong(build: ModuleType) -> None:
    message = build.message
    wrong: dict[str, Callable[[], bytes]] = {
        "external": lambda: build.onnx(graph=message(5, build.number(14, 1))),
        "operator": lambda: build.onnx(graph=message(1, message(7, "com.evil"))),
        "subgraph": lambda: build.onnx(
            graph=message(1, message(5, message(6, message(5, build.number(14, 1)))))
        ),
        "domain": lambda: build.onnx(message(8, message(1, "com.evil"))),
        "twice": lambda: build.onnx(*[message(14, message(1, "a"), message(2, "b"))] * 2),
        "none": lambda: build.number(1, 8),
    }
    for name, make in wrong.items():
        facts = onnx_facts(make())
        assert facts is not None, name
        assert not _harmless(facts), name
        with pytest.raises(HushdocError):
            onnx_scan.scan(make())
