"""The floor of models at run time: a transformer's matrix products, and nothing between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

POSITIONS = "positions"
"""Of a row: any number."""


def write(path: Path, **sizes: Any) -> None:
    """Writes the products of one row, as `products` makes them, in float32 and in int8."""
    from hushdoc_export import graph, quantize

    fp32 = quantize.optimized(products(**sizes), "basic")
    int8 = quantize.optimized(quantize.int8(fp32, per_channel=True), "extended")
    for variant, made in (("fp32", fp32), ("int8", int8)):
        path.with_suffix(f".{variant}.onnx").write_bytes(graph.serialize(made, notes={}))


def products(
    *,
    layers: int,
    hidden: int,
    heads: int,
    inner: int,
    square: int = 4,
    after: Sequence[int] = (),
) -> Any:
    """Returns the products as an onnx.ModelProto; each reads what the one before it answers.

    Each layer has `square` weights that keep the width, as attention's four, the two products of
    attention itself, and the two of the feed-forward network; every weight is read once, as in the
    model. What the last layer answers is multiplied by further weights of the widths `after`.
    """
    from onnx import TensorProto, helper, numpy_helper

    generator = np.random.default_rng(0)
    width = hidden // heads
    ports = {
        "states": (1, POSITIONS, hidden),
        "context_0": (1, heads, POSITIONS, width),
        "keys": (1, heads, width, POSITIONS),
        "values": (1, heads, POSITIONS, width),
    }
    nodes: list[Any] = []
    weights: list[Any] = []

    def product(state: str, rows: int, columns: int) -> str:
        name = f"weight_{len(weights)}"
        values = generator.standard_normal((rows, columns), dtype=np.float32)
        weights.append(numpy_helper.from_array(values / np.float32(rows**0.5), name))
        nodes.append(helper.make_node("MatMul", [state, name], [f"{name}_states"]))
        return f"{name}_states"

    state, widths = "states", [hidden] * (square + 1) + [inner, hidden]
    for layer in range(layers):
        for rows, columns in pairwise(widths):
            state = product(state, rows, columns)
        scores, context = f"scores_{layer}", f"context_{layer + 1}"
        nodes.append(helper.make_node("MatMul", [f"context_{layer}", "keys"], [scores]))
        nodes.append(helper.make_node("MatMul", [scores, "values"], [context]))
    last = [product(state, hidden, columns) for columns in after] or [state]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in ports.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in (*last, f"context_{layers}")
    ]
    made = helper.make_graph(nodes, "products", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def inputs(session: Any, positions: int) -> dict[str, Any]:
    """Returns invented inputs, so small that no product overflows."""
    generator = np.random.default_rng(1)
    shapes = {
        name: [positions if size == POSITIONS else size for size in shape]
        for name, shape in session.inputs.items()
    }
    return {
        name: generator.standard_normal(shape, dtype=np.float32) / np.float32(max(shape) ** 0.5)
        for name, shape in shapes.items()
    }
