"""Variants of a graph: optimized ahead of time, in bytes, or in half precision.

fp32   onnx/model.onnx        as trained; standard operators alone, so other ONNX runtimes run it
int8   onnx/model_int8.onnx   weights and word tables as bytes; for processors, a quarter the size
fp16   onnx/model_fp16.onnx   half precision; for accelerators, half the size

Each follows from weights alone, reads no data, and is a graph of its own in an artifact of its own:
which one answers is signed, and nobody downloads or hashes the others. A model of several graphs
has such a file of each, as onnx/encoder_model.onnx.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hushdoc.errors import OutputWriteError, needs_extra
from hushdoc.runtime.session import FATAL, SLOW_FUSIONS, import_onnxruntime
from hushdoc_export import graph

Level = Literal["basic", "extended"]

MODEL = "model"
"""Name of the graph of a model that has but one."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to write a model down.

    The level "basic" uses standard operators. "extended" fuses them into operators of ONNX Runtime,
    which load faster. Neither depends on the machine that exports; what does is left to the one
    that loads.
    """

    name: str
    entry: str  # the file in an artifact of a model of one graph
    level: Level  # how far it is optimized before it is sealed
    fused: bool = True  # whether attention is one operator, which ONNX Runtime has for processors

    def file(self, name: str) -> str:
        """Returns the file in an artifact of the graph of a name; MODEL is an only one."""
        return self.entry if name == MODEL else self.entry.replace("/", f"/{name}_", 1)


VARIANTS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant(name="fp32", entry="onnx/model.onnx", level="basic"),
        Variant(name="int8", entry="onnx/model_int8.onnx", level="extended"),
        Variant(name="fp16", entry="onnx/model_fp16.onnx", level="basic", fused=False),
    )
}

IN_FLOATS = "productsInFloats"
"""Key of the method of a variant that is slower than others and closer to its graph."""

QUANTIZED_OPERATORS = ("MatMul", "Gather")
"""Products with weights and look-ups in tables: without the latter the table of words, often the
larger part of a small model, stays in floats."""


def optimized(proto: Any, level: Level) -> Any:
    """Returns a graph in which ONNX Runtime folded constants and fused what belongs together."""
    onnx, runtime = _onnx(), import_onnxruntime()
    with _scratch(proto.ByteSize()) as scratch:
        path = scratch / "optimized.onnx"
        options = runtime.SessionOptions()
        options.log_severity_level = FATAL
        options.optimized_model_filepath = str(path)
        levels = runtime.GraphOptimizationLevel
        options.graph_optimization_level = (
            levels.ORT_ENABLE_BASIC if level == "basic" else levels.ORT_ENABLE_EXTENDED
        )
        # Weights ready-packed would fit this processor alone.
        options.add_session_config_entry("session.disable_prepacking", "1")
        runtime.InferenceSession(
            proto.SerializeToString(),
            sess_options=options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOW_FUSIONS,
        )
        converted = onnx.load(str(path))
    graph.strip(converted)
    _keep_used_domains(converted)
    return converted


def int8(proto: Any, *, per_channel: bool, in_floats: Collection[str] = ()) -> Any:
    """Returns a graph whose weights are bytes; activations are rounded as they come.

    The graph given is in float32, optimized no further than "basic". Per channel, every
    column of a weight has a scale of its own. The products of the nodes named by `in_floats` are
    computed in floats: their weights are bytes where others share them, and activations stay.
    """
    onnx = _onnx()
    import_onnxruntime()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # The quantizer writes the graph as it is beside its own.
    with _scratch(2 * proto.ByteSize()) as scratch, graph.silence():
        path = scratch / "int8.onnx"
        quantize_dynamic(
            _without_told_shapes(_with_own_tables(_copy(proto))),
            str(path),
            op_types_to_quantize=list(QUANTIZED_OPERATORS),
            per_channel=per_channel,
            nodes_to_exclude=list(in_floats),
            weight_type=QuantType.QInt8,
        )
        converted = onnx.load(str(path))
    graph.strip(converted)
    return converted


@contextmanager
def _scratch(needed: int) -> Iterator[Path]:
    """Yields a temporary folder; OutputWriteError where its disk has no room for so many bytes."""
    with tempfile.TemporaryDirectory(prefix="hushdoc-export-") as scratch:
        free = shutil.disk_usage(scratch).free
        if free < needed:
            raise OutputWriteError(
                f"'{Path(scratch).parent}' stands on a disk with {free / 1e6:.0f} MB left, and "
                f"making a variant writes up to {needed / 1e6:.0f} MB there. Free some space, or "
                "name another folder for temporary files by TMPDIR, and run the same command again."
            )
        yield Path(scratch)


def _with_own_tables(proto: Any) -> Any:
    """Gives each product its own copy of a weight that it shares with a look-up in a table.

    The quantizer turns the weight of a transposed product round in place, as in models whose output
    layer is their table of words; the look-up would then read columns for rows.
    """
    tables = {node.input[0] for node in proto.graph.node if node.op_type == "Gather"}
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    for number, node in enumerate(proto.graph.node):
        if node.op_type != "Gemm":
            continue
        for place, name in enumerate(node.input):
            if name in tables and name in weights:
                own = proto.graph.initializer.add()
                own.CopyFrom(weights[name])
                own.name = node.input[place] = f"{name}.of_product_{number}"
    return proto


def _without_told_shapes(proto: Any) -> Any:
    """Leaves out what a graph tells of its weights' shapes besides these weights.

    The quantizer turns weights round, and then refuses a graph that tells their former shape.
    """
    weights = {tensor.name for tensor in proto.graph.initializer}
    kept = [told for told in proto.graph.value_info if told.name not in weights]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    return proto


def fp16(proto: Any) -> Any:
    """Returns a float32 graph, at most "basic", in half precision; its inputs and outputs stay."""
    _onnx()
    import_onnxruntime()
    from onnxruntime.transformers import float16

    with graph.silence():
        converted = float16.convert_float_to_float16(
            _copy(proto),
            keep_io_types=True,
            node_block_list=_become_integers(proto),
        )
    _repair_casts(converted)
    graph.strip(converted)
    return converted


def _become_integers(proto: Any) -> list[str]:
    """Returns the nodes from which integers are cast, such as places in a table of distances.

    Half precision would round them to a neighbour's place.
    """
    onnx = _onnx()
    integers = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    makers = {name: node for node in proto.graph.node for name in node.output}
    open_nodes = [
        node
        for node in proto.graph.node
        if node.op_type == "Cast"
        and any(field.name == "to" and field.i in integers for field in node.attribute)
    ]
    found: dict[str, None] = {}
    while open_nodes:
        node = open_nodes.pop()
        if node.name not in found:
            found[node.name] = None
            open_nodes += [makers[name] for name in node.input if name in makers]
    return list(found)


def _repair_casts(proto: Any) -> None:
    """Repairs what the converter leaves around nodes that stay in float32.

    It adds the same cast once for each reader, rounds on the way from one such node to the next,
    and puts casts behind the nodes that read them.
    """
    rounded = {
        node.output[0]: node.input[0]
        for node in proto.graph.node
        if node.name.endswith("_cast_to_fp16_node")
    }
    exact = {
        node.output[0]: rounded[node.input[0]]
        for node in proto.graph.node
        if node.name.endswith("_cast_to_fp32_node") and node.input[0] in rounded
    }
    unique = {tuple(node.output): node for node in proto.graph.node if node.output[0] not in exact}
    nodes = _in_order(list(unique.values()), exact)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)


def _in_order(nodes: list[Any], renamed: Mapping[str, str]) -> list[Any]:
    """Returns nodes behind those whose outputs they read, after some outputs got other names."""
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    makers = {name: node for node in nodes for name in node.output}
    placed: dict[int, Any] = {}
    waiting = [(node, False) for node in reversed(nodes)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            placed.setdefault(id(node), node)
        elif id(node) not in placed:
            waiting.append((node, True))
            waiting += [(makers[name], False) for name in node.input if name in makers]
    return list(placed.values())


def _copy(proto: Any) -> Any:
    """Returns a copy; both converters change what they are given."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    return copy


def _keep_used_domains(proto: Any) -> None:
    """Removes the operator sets that ONNX Runtime lists and the graph does not use."""
    used = {node.domain for node in proto.graph.node} | {""}
    kept = [opset for opset in proto.opset_import if opset.domain in used]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)


def _onnx() -> Any:
    with needs_extra("onnx", "export"):
        import onnx
    return onnx


def written(proto: Any, variant: Variant) -> list[tuple[Any, dict[str, Any]]]:
    """Returns the ways to write a variant, with the method of each; the closest is to be taken."""
    if variant.name == "fp16":
        return [(fp16(proto), {"weights": "float16", "optimized": variant.level})]
    again = repeated(proto)
    ways: list[tuple[bool, Collection[str]]] = [(False, ()), (True, ())]
    ways += [(True, again)] if again else []
    return [
        (
            optimized(int8(proto, per_channel=per_channel, in_floats=in_floats), variant.level),
            {
                "weights": "int8",
                "activations": "uint8, scaled at run time",
                "operators": list(QUANTIZED_OPERATORS),
                "perChannel": per_channel,
                **({IN_FLOATS: len(in_floats)} if in_floats else {}),
                "optimized": variant.level,
            },
        )
        for per_channel, in_floats in ways
    ]


def repeated(proto: Any) -> list[str]:
    """Returns the nodes of products whose weight an earlier one has too.

    In a pointer these read the question, by the encoder that reads the page. What tells questions
    apart is little of their states, which the reader enlarges with whatever rounding was in it.
    """
    weights = {tensor.name for tensor in proto.graph.initializer}
    seen: set[str] = set()
    found = []
    for node in proto.graph.node:
        if node.name and node.op_type == "MatMul" and (shared := weights & {*node.input}):
            found += [node.name] if shared & seen else []
            seen |= shared
    return found
