"""The ONNX file: any batch and length, nothing of the machine it came from."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import hushdoc_tiny_models as tiny_models
import numpy as np
import onnx
import pytest
import torch

from hushdoc.errors import CheckpointError, LimitExceededError
from hushdoc.runtime.session import Session
from hushdoc_export import graph, probes

NOTES = {"hushdoc.certificate_id": "ab" * 16, "hushdoc.summary": "dp"}


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_models.model("layoutlm")


def traced(model: Any) -> Any:
    """Returns the graph of a model, traced now."""
    return inspect.unwrap(probes.Traceable.traced)(tiny_models.traceable(model))


@pytest.fixture(scope="module")
def content(model: Any) -> bytes:
    """Returns the file of the model; its graph may have been traced by other tests before."""
    return graph.serialize(tiny_models.traceable(model).traced(), notes=NOTES)


def messages(message: Any) -> list[Any]:
    """Returns a protobuf message and all messages in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            parts = [value] if hasattr(value, "ListFields") else value
            found += [inner for part in parts for inner in messages(part)]
    return found


def test_no_note_of_the_exporter_is_left(content: bytes) -> None:
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    for message in messages(model):
        assert not getattr(message, "doc_string", "")
        if message is not model:
            assert not len(getattr(message, "metadata_props", []))
    for mark in (b"site-packages", b'File "', b"hushdoc_training", b"transformers"):
        assert mark not in content


def test_only_our_metadata_stands_in_it(content: bytes) -> None:
    assert Session(content).metadata == NOTES


def test_batch_and_sequence_are_free_and_named(content: bytes) -> None:
    session = Session(content)
    assert session.inputs == {
        "input_ids": ["batch", "sequence"],
        "bbox": ["batch", "sequence", 4],
        "attention_mask": ["batch", "sequence"],
    }
    assert session.outputs == {"logits": ["batch", "sequence", 7]}


def test_weights_stand_inside(content: bytes) -> None:
    model = onnx.load_from_string(content)
    assert all(not tensor.external_data for tensor in model.graph.initializer)


def test_the_same_model_gives_the_same_bytes_and_nothing_is_printed(
    model: Any, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    # So a model remembered by the other tests is the one that was made.
    again = graph.serialize(traced(model), notes=NOTES)
    assert again == content
    assert capfd.readouterr() == ("", "")


def test_notes_are_removed_wherever_a_graph_may_hold_them() -> None:
    helper = onnx.helper
    inner = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"], doc_string="d")],
        "then",
        [],
        [helper.make_tensor_value_info("z", 1, [1], doc_string="d")],
        [onnx.numpy_helper.from_array(np.ones(1, np.float32), "w")],
        doc_string="d",
    )
    inner.initializer[0].doc_string = "d"
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    node.attribute[0].doc_string = "d"
    value = helper.make_tensor_value_info("v", 1, [1], doc_string="d")
    outer = helper.make_graph([node], "g", [], [], value_info=[value], doc_string="d")
    function = helper.make_function(
        "local", "f", ["a"], ["b"], [helper.make_node("Identity", ["a"], ["b"])], []
    )
    function.doc_string = "d"
    proto = helper.make_model(outer, functions=[function], doc_string="d")
    holders = [proto, proto.graph, proto.graph.node[0], function.node[0], value, function]
    for holder in [*holders, proto.functions[0].node[0], inner.initializer[0]]:
        holder.metadata_props.add(key="pkg.torch.onnx.stack_trace", value='File "x.py"')
    graph.strip(proto)
    for message in messages(proto):
        assert not getattr(message, "doc_string", "")
        assert not len(getattr(message, "metadata_props", []))


@pytest.mark.parametrize("text", ['File "model.py", line 3', "/x/site-packages/torch/nn.py"])
def test_a_path_that_is_left_stops_the_export(text: str) -> None:
    node = onnx.helper.make_node("Identity", ["x"], ["y"], name=text)
    proto = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    with pytest.raises(CheckpointError, match="reveals something about this machine"):
        graph.serialize(proto, notes={})


def test_weights_that_look_like_a_path_do_not_stop_it() -> None:
    weight = onnx.TensorProto(name="w", data_type=2, dims=[5], raw_data=b"/root")
    proto = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [weight]))
    assert graph.serialize(proto, notes={})


def test_a_user_without_a_home_can_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container runs one whose number nobody knows: `Path.home` is an error there."""
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(RuntimeError, match="home"):
        Path.home()
    assert graph.serialize(onnx.helper.make_model(onnx.GraphProto(name="g")), notes={})


def test_a_model_that_cannot_be_traced_is_a_checkpoint_error() -> None:
    class Untraceable(torch.nn.Module):
        def forward(self, input_ids: Any, bbox: Any, attention_mask: Any) -> Any:
            if input_ids.sum().item() > 3:
                raise ValueError("no")
            return bbox

    with pytest.raises(CheckpointError, match="can't be exported"):
        traced(Untraceable())


def test_weights_that_no_file_can_hold_are_refused() -> None:
    model = torch.nn.Embedding(1, 1, device="meta")
    model.weight = torch.nn.Parameter(torch.empty(2**20, 600, device="meta"))
    with pytest.raises(LimitExceededError, match="one ONNX file holds at most"):
        traced(model)
