"""The floor of kie_inference.py: a LayoutLMv3's matrix products, and nothing between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write(path: Path, *, layers: int, hidden: int, heads: int, positions: int) -> None:
    """Writes the products of one row as graphs in float32 and int8, beside one another.

    Each layer has the four of attention's weights, the two of attention itself, and the two of the
    feed-forward network; every weight is read once, as in the model.
    """
    from hushdoc_export import graph, quantize

    proto = products(layers=layers, hidden=hidden, heads=heads, positions=positions)
    fp32 = quantize.optimized(proto, "basic")
    int8 = quantize.optimized(quantize.int8(fp32, per_channel=True), "extended")
    for variant, made in (("fp32", fp32), ("int8", int8)):
        path.with_suffix(f".{variant}.onnx").write_bytes(graph.serialize(made, notes={}))


def products(*, layers: int, hidden: int, heads: int, positions: int) -> Any:
    """Returns the products as an onnx.ModelProto; each reads what the one before it answers."""
    from onnx import TensorProto, helper, numpy_helper

    generator = np.random.default_rng(0)
    width = hidden // heads
    sizes = [hidden] * 5 + [4 * hidden, hidden]  # four square weights, then out and back
    ports = {
        "states": (1, positions, hidden),
        "context_0": (1, heads, positions, width),
        "keys": (1, heads, width, positions),
        "values": (1, heads, positions, width),
    }
    nodes, weights = [], []
    state = "states"
    for layer in range(layers):
        for step, size in enumerate(zip(sizes, sizes[1:], strict=False)):
            name, answer = f"weight_{layer}_{step}", f"states_{layer}_{step}"
            values = generator.standard_normal(size, dtype=np.float32) / np.float32(size[0] ** 0.5)
            weights.append(numpy_helper.from_array(values, name))
            nodes.append(helper.make_node("MatMul", [state, name], [answer]))
            state = answer
        scores, context = f"scores_{layer}", f"context_{layer + 1}"
        nodes.append(helper.make_node("MatMul", [f"context_{layer}", "keys"], [scores]))
        nodes.append(helper.make_node("MatMul", [scores, "values"], [context]))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in ports.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in (state, f"context_{layers}")
    ]
    made = helper.make_graph(nodes, "products", inputs, outputs, weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def inputs(session: Any) -> dict[str, Any]:
    """Returns invented inputs, so small that no product overflows."""
    generator = np.random.default_rng(1)
    return {
        name: generator.standard_normal(shape, dtype=np.float32) / np.float32(max(shape) ** 0.5)
        for name, shape in session.inputs.items()
    }
