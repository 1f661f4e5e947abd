"""Variants of a graph: smaller or faster to load, close to it, and portable."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import numpy as np
import onnx
import pytest
import torch

from hushdoc.artifact import onnx_scan
from hushdoc.errors import OutputWriteError
from hushdoc.runtime import unsigned_weights
from hushdoc.runtime.session import Session
from hushdoc_export import graph, quantize, release
from hushdoc_export.question_agreement import QuestionAgreement
from hushdoc_training.models import adapters, whitening

NOTES = {"hushdoc.certificate_id": "ab" * 16}


@pytest.fixture(scope="module", params=["layoutlm", "layoutlmv3", "lilt"])
def proto(request: pytest.FixtureRequest) -> Any:
    return quantize.optimized(
        tiny_models.traceable(tiny_models.model(request.param)).traced(), "basic"
    )


def answers(proto: Any) -> np.ndarray:
    probe = tiny_models.traceable(None).probes[3]
    logits = Session(graph.serialize(proto, notes=NOTES)).run(probe)[0]
    return logits[probe["attention_mask"].astype(bool)]


def test_no_room_for_temporary_files_is_told_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """ONNX Runtime calls it an invalid protobuf, whose serialization failed."""
    weight = onnx.numpy_helper.from_array(np.zeros(1000, dtype=np.float32), "w")
    graph_of = onnx.helper.make_graph([], "g", [], [], [weight])
    proto = onnx.helper.make_model(graph_of)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    room = shutil.disk_usage(tmp_path)._replace(free=3999)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: room)
    for write in (
        partial(quantize.optimized, level="basic"),
        partial(quantize.int8, per_channel=True),
    ):
        with pytest.raises(OutputWriteError, match=f"'{tmp_path}' stands on .* by TMPDIR"):
            write(proto)
    assert not list(tmp_path.iterdir())


def domains(proto: Any) -> set[str]:
    return {opset.domain for opset in proto.opset_import}


def bytes_of(proto: Any) -> int:
    return len(proto.SerializeToString())


def initializer_types(proto: Any) -> dict[int, int]:
    """Returns how many numbers the weights hold of each type."""
    found: dict[int, int] = {}
    for tensor in proto.graph.initializer:
        found[tensor.data_type] = found.get(tensor.data_type, 0) + int(np.prod(tensor.dims))
    return found


def test_the_basic_level_changes_no_answer_and_uses_standard_operators(proto: Any) -> None:
    assert domains(proto) == {""}
    extended = quantize.optimized(proto, "extended")
    assert domains(extended) <= {"", "com.microsoft"}
    assert answers(extended) == pytest.approx(answers(proto), abs=1e-4)
    for made in (proto, extended):
        assert onnx_scan.scan(graph.serialize(made, notes=NOTES)) == NOTES
        assert not [node for node in made.graph.node if node.doc_string]


def test_the_same_graph_is_optimized_to_the_same_bytes(proto: Any) -> None:
    first, second = (quantize.optimized(proto, "extended") for _ in range(2))
    assert graph.serialize(first, notes=NOTES) == graph.serialize(second, notes=NOTES)


@pytest.mark.parametrize("per_channel", [False, True])
def test_bytes_hold_the_weights_and_the_tables(proto: Any, per_channel: bool) -> None:
    before = proto.SerializeToString(deterministic=True)
    made = quantize.int8(proto, per_channel=per_channel)
    assert proto.SerializeToString(deterministic=True) == before
    types = initializer_types(made)
    whole = types.get(onnx.TensorProto.INT8, 0) + types.get(onnx.TensorProto.UINT8, 0)
    # Biases, norms and tables that two operators read stay in floats.
    assert whole > 0.9 * (whole + types[onnx.TensorProto.FLOAT])
    assert bytes_of(made) < 0.45 * bytes_of(proto)
    expected, found = answers(proto), answers(made)
    assert np.abs(found - expected).max() < 0.2 * np.ptp(expected)
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98
    assert not np.array_equal(found, expected)


@pytest.mark.parametrize("per_channel", [False, True])
def test_all_bytes_can_be_unsigned_where_those_alone_are_multiplied_exactly(
    proto: Any, per_channel: bool
) -> None:
    made = quantize.optimized(quantize.int8(proto, per_channel=per_channel), "extended")
    content = unsigned_weights.of(graph.serialize(made, notes=NOTES))
    assert content is not None
    grown = onnx.load_from_string(content)
    onnx.checker.check_model(grown)
    assert onnx.TensorProto.INT8 not in initializer_types(grown)
    for before, after in zip(made.graph.initializer, grown.graph.initializer, strict=True):
        one, other = (onnx.numpy_helper.to_array(tensor) for tensor in (before, after))
        shift = 128 if before.data_type == onnx.TensorProto.INT8 else 0
        assert before.name == after.name
        assert np.array_equal(other.astype(np.float64), one.astype(np.float64) + shift)
    assert list(made.graph.node) == list(grown.graph.node)


def test_a_layer_that_was_whitened_in_training_is_rounded_as_any_other() -> None:
    """Its weights grow along directions in which inputs vary little, and become bytes with them."""
    model = tiny_models.model("layoutlm")
    parts = {
        name: part.detach().clone() for name, part in model.inner.classifier.named_parameters()
    }
    before = parts["weight"]
    scales = torch.logspace(0, -2, before.shape[1])
    with adapters.merging(model):
        whitening.adapt(model.inner, torch.randn(500, before.shape[1]) * scales)
        torch.nn.init.normal_(model.inner.classifier.change.weight)
    moved = (model.inner.classifier.weight.detach() - before).abs().mean(0)
    assert float(moved[-1] / moved[0]) > 20
    whole = quantize.optimized(
        tiny_models.traceable(tiny_models.model("layoutlm")).traced(), "basic"
    )
    for name, changed in model.inner.classifier.named_parameters():
        [tensor] = [  # of another value in a graph that is otherwise the same
            tensor
            for tensor in whole.graph.initializer
            if np.array_equal(onnx.numpy_helper.to_array(tensor).T, parts[name])
        ]
        value = np.ascontiguousarray(changed.detach().numpy().T)
        tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    probe = tiny_models.traceable(None).probes[3]
    real = tiny_models.traceable(model).answer(probe)[probe["attention_mask"].astype(bool)]
    assert answers(whole) == pytest.approx(real, abs=1e-3)
    expected, found = answers(whole), answers(quantize.int8(whole, per_channel=True))
    assert np.abs(found - expected).max() < 0.2 * np.ptp(expected)
    assert not np.array_equal(found, expected)


def test_half_precision_halves_the_file_and_keeps_the_answers(proto: Any) -> None:
    before = proto.SerializeToString(deterministic=True)
    made = quantize.fp16(proto)
    assert proto.SerializeToString(deterministic=True) == before
    assert bytes_of(made) < 0.65 * bytes_of(proto)
    expected, found = answers(proto), answers(made)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 0.02 * np.ptp(expected)
    onnx.checker.check_model(made)


def test_numbers_that_become_places_stay_exact() -> None:
    """3001 is 3000 in half precision, and would be another row of a table."""
    helper, kinds = onnx.helper, onnx.TensorProto
    one = onnx.numpy_helper.from_array(np.float32(1), "one")
    nodes = [
        helper.make_node("Cast", ["n"], ["f"], to=kinds.FLOAT, name="to_float"),
        helper.make_node("Mul", ["f", "one"], ["g"], name="times_one"),
        helper.make_node("Mul", ["g", "one"], ["h"], name="times_one_again"),
        helper.make_node("Cast", ["h"], ["place"], to=kinds.INT64, name="to_place"),
    ]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("n", kinds.INT64, [1])],
        [helper.make_tensor_value_info("place", kinds.INT64, [1])],
        [one],
    )
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = Session(graph.serialize(quantize.fp16(proto), notes=NOTES))
    assert session.run({"n": np.array([3001])})[0].tolist() == [3001]


def test_every_variant_has_a_file_of_its_own() -> None:
    entries = [variant.entry for variant in quantize.VARIANTS.values()]
    assert entries == ["onnx/model.onnx", "onnx/model_int8.onnx", "onnx/model_fp16.onnx"]
    assert all(name == variant.name for name, variant in quantize.VARIANTS.items())


def tied() -> Any:
    """Returns a look-up in a table, whose rows are then compared with the same table."""
    table = np.random.default_rng(0).standard_normal((40, 8), dtype=np.float32)
    helper = onnx.helper
    made = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node("Gemm", ["rows", "table"], ["logits"], transB=1),
        ],
        "tied",
        [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch"])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 40])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_graph_may_tell_the_shapes_of_its_weights(per_channel: bool) -> None:
    """As ONNX Runtime writes it where a layer reads one vector of a page: classifiers have one."""
    told, weight = tied(), onnx.helper.make_tensor_value_info("table", onnx.TensorProto.FLOAT, None)
    weight.type.tensor_type.shape.dim.add().dim_value = 40
    weight.type.tensor_type.shape.dim.add().dim_value = 8
    (product,) = (node for node in told.graph.node if node.op_type == "Gemm")
    product.input[0] = "x"
    del told.graph.node[0], told.graph.input[:]
    told.graph.input.append(
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 8])
    )
    told.graph.value_info.append(weight)
    x = {"x": np.random.default_rng(1).standard_normal((5, 8), dtype=np.float32)}
    (expected,) = Session(graph.serialize(told, notes=NOTES)).run(x)
    rounded = quantize.int8(told, per_channel=per_channel)
    assert "Gemm" not in {node.op_type for node in rounded.graph.node}
    (found,) = Session(graph.serialize(rounded, notes=NOTES)).run(x)
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_a_table_that_a_product_shares_is_rounded_for_both() -> None:
    ids = {"ids": np.arange(40)}
    (expected,) = Session(graph.serialize(tied(), notes=NOTES)).run(ids)
    rounded = quantize.int8(tied(), per_channel=False)
    kinds = (onnx.TensorProto.UINT8, onnx.TensorProto.INT8)
    tables = {
        tuple(tensor.dims): tensor.data_type for tensor in rounded.graph.initializer if tensor.dims
    }
    assert tables == {(40, 8): kinds[0], (8, 40): kinds[1]}
    (found,) = Session(graph.serialize(rounded, notes=NOTES)).run(ids)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def read_twice() -> Any:
    """Returns products of a page and a question with one weight, and of both with each other."""
    weight = np.random.default_rng(0).standard_normal((16, 16), dtype=np.float32)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    made = helper.make_graph(
        [
            helper.make_node("MatMul", ["page", "weight"], ["pages"], name="of_page"),
            helper.make_node("MatMul", ["question", "weight"], ["questions"], name="of_question"),
            helper.make_node("Transpose", ["pages"], ["turned"], perm=[1, 0], name="turn"),
            helper.make_node("MatMul", ["questions", "turned"], ["scores"], name="of_both"),
        ],
        "read twice",
        [
            helper.make_tensor_value_info("page", kind, ["words", 16]),
            helper.make_tensor_value_info("question", kind, ["asked", 16]),
        ],
        [helper.make_tensor_value_info("scores", kind, ["asked", "words"])],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_of_a_weight_that_is_read_twice_the_second_product_can_stay_in_floats() -> None:
    proto = read_twice()
    assert quantize.repeated(proto) == ["of_question"]
    ways = quantize.written(proto, quantize.VARIANTS["int8"])
    assert [method.get(quantize.IN_FLOATS) for _, method in ways] == [None, None, 1]
    assert len(quantize.written(tied(), quantize.VARIANTS["int8"])) == 2
    rounded = [
        sum(
            "MatMulInteger" in node.op_type
            or "Quantize" in node.op_type
            and "MatMul" in node.op_type
            for node in made.graph.node
        )
        for made, _ in ways
    ]
    assert rounded == [2, 2, 1]
    floats = onnx.TensorProto.FLOAT
    assert not [
        one
        for one in ways[2][0].graph.initializer
        if one.data_type == floats and np.prod(one.dims) == 256
    ]
    for made, _ in ways:
        assert unsigned_weights.of(graph.serialize(made, notes=NOTES)) is not None


@pytest.mark.parametrize(
    ("agreements", "limit", "in_floats"),
    [
        ((97.0, 99.2, 99.9), 1.0, False),  # bytes are close enough
        ((97.0, 98.0, 99.5), 1.0, True),
        ((97.0, 95.0, 96.0), 1.0, False),  # none is, and the closest is reported
        ((97.0, 95.0, 98.0), 1.0, True),
    ],
)
def test_products_in_floats_are_taken_only_where_bytes_alone_lose_too_much(
    agreements: tuple[float, ...], limit: float, in_floats: bool
) -> None:
    certificate = tiny.release().certificate(
        tiny.claim(), task="docvqa", format="onnx", entry="onnx/model_int8.onnx"
    )
    protos = {quantize.MODEL: read_twice()}
    exported = release._loaded(protos, {}, certificate)

    def measure(*_: Any) -> list[Any]:
        return [
            QuestionAgreement(
                questions=500,
                answer_agreement=found,
                anls_graph=10.0,
                anls_variant=10.0,
                max_anls_loss=limit,
            )
            for found in agreements
        ]

    best, measured = release._closest(
        protos, exported, certificate, quantize.VARIANTS["int8"], measure
    )
    assert (quantize.IN_FLOATS in best.method) == in_floats
    close = [found for found in agreements[:2] if 100 - found <= limit]
    assert measured.to_dict()["answerAgreement"] == max(close or agreements)
