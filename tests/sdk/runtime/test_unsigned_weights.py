"""Weights of int8 as uint8: the same products, and nothing changed that could be another."""

from __future__ import annotations

import hushdoc_graphs
import numpy as np
import pytest
from hushdoc_builders import message, number

from hushdoc.runtime import unsigned_weights
from hushdoc.runtime.session import import_onnxruntime

CHANCE = np.random.default_rng(0)
# Sums of two products stay below 2 ** 15, so that processors without VNNI are exact, too.
WEIGHT = CHANCE.integers(-64, 64, (16, 5)).astype(np.int8)
ZEROS = CHANCE.integers(-9, 9, 5).astype(np.int8)
SCALES = CHANCE.uniform(0.01, 0.1, 5).astype(np.float32)
X = CHANCE.integers(0, 256, (3, 16))


def graph(
    operator: str, inputs: list[str], weights: dict[str, np.ndarray], domain: str = ""
) -> bytes:
    """Returns x times a weight, by way of an operator."""
    return hushdoc_graphs.model(
        [
            hushdoc_graphs.node("Cast", ["x"], "bytes", to=2),
            hushdoc_graphs.node("Cast", ["zero"], "z", to=2),
            hushdoc_graphs.node(operator, inputs, "found", domain=domain),
            hushdoc_graphs.node("Cast", ["found"], "y", to=1),
        ],
        {"x": ["n", 16]},
        {"y": ["m", 5]},
        {"zero": np.zeros(()), **weights},
        {"note": "kept"},
    )


BOTH = {"w": WEIGHT, "wz": ZEROS}
SCALED = BOTH | {"s": SCALES, "one": np.ones(())}
GRAPHS = {
    "MatMulInteger": graph("MatMulInteger", ["bytes", "w", "z", "wz"], BOTH),
    "MatMulIntegerToFloat": graph(
        "MatMulIntegerToFloat", ["bytes", "w", "one", "s", "z", "wz"], SCALED, "com.microsoft"
    ),
    "DynamicQuantizeMatMul": graph(
        "DynamicQuantizeMatMul", ["x", "w", "s", "wz"], SCALED, "com.microsoft"
    ),
    "DequantizeLinear": graph("DequantizeLinear", ["w", "s", "wz"], SCALED),
}


def answer(content: bytes) -> np.ndarray:
    runtime = import_onnxruntime()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map == {"note": "kept"}
    return np.asarray(session.run(None, {"x": X.astype(np.float32)})[0])


@pytest.mark.parametrize("operator", GRAPHS)
def test_answers_are_the_same_to_the_last_bit(operator: str) -> None:
    assert operator.encode() in unsigned_weights.READERS
    content = GRAPHS[operator]
    grown = unsigned_weights.of(content)
    assert grown is not None
    assert WEIGHT.tobytes() in content
    assert WEIGHT.tobytes() not in grown
    assert (WEIGHT.astype(np.int16) + 128).astype(np.uint8).tobytes() in grown
    assert np.array_equal(answer(grown), answer(content))
    assert unsigned_weights.of(grown) is None


def test_every_operator_is_tried() -> None:
    assert {name.encode() for name in GRAPHS} == set(unsigned_weights.READERS)


def test_products_are_those_of_whole_numbers() -> None:
    expected = X @ (WEIGHT.astype(np.int64) - ZEROS)
    grown = unsigned_weights.of(GRAPHS["MatMulInteger"])
    assert grown is not None
    assert np.array_equal(answer(grown), expected)


def branching() -> bytes:
    """Returns a node with a graph inside, which reads the weight by its name."""
    inside = hushdoc_graphs.node("MatMulInteger", ["bytes", "w", "", "wz"], "inner")
    branch = message(5, message(1, "then_branch"), message(6, message(1, inside)), number(20, 5))
    return message(1, "condition") + message(2, "found") + message(4, "If") + branch


@pytest.mark.parametrize(
    "nodes",
    [
        [hushdoc_graphs.node("Cast", ["w"], "y", to=1)],
        [hushdoc_graphs.node("MatMulInteger", ["x", "w"], "y")],
        [hushdoc_graphs.node("MatMulInteger", ["x", "w", "z", "other"], "y")],
        [hushdoc_graphs.node("MatMulInteger", ["wz", "w", "z", "wz"], "y")],
        [
            hushdoc_graphs.node("MatMulInteger", ["x", "w", "", "wz"], "y"),
            hushdoc_graphs.node("Identity", ["wz"], "again"),
        ],
        [branching()],
    ],
)
def test_a_weight_that_something_else_reads_stays(nodes: list[bytes]) -> None:
    content = hushdoc_graphs.model(nodes, {"x": ["n"]}, {"y": ["n"]}, BOTH)
    assert unsigned_weights.of(content) is None


@pytest.mark.parametrize("place", ["inputs", "outputs"])
def test_a_weight_that_goes_in_or_out_stays(place: str) -> None:
    node = hushdoc_graphs.node("MatMulInteger", ["x", "w", "", "wz"], "y")
    ports: dict[str, dict[str, list[int | str]]] = {"inputs": {"x": [3]}, "outputs": {"y": [3]}}
    ports[place]["wz"] = [5]
    content = hushdoc_graphs.model([node], ports["inputs"], ports["outputs"], BOTH)
    assert unsigned_weights.of(content) is None


def test_what_is_no_graph_stays() -> None:
    content = GRAPHS["MatMulInteger"]
    end_of_graph = content.index(b"note") - 4
    cut = [content[:end] for end in range(end_of_graph)]
    for found in (*cut, content + content, message(7, b"\x08"), number(7, 5), b"\xff" * 20):
        assert unsigned_weights.of(found) is None
