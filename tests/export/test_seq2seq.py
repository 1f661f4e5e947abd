"""The graphs of VT5: they answer as the model does, with a past of any length, in bytes too."""

from __future__ import annotations

from typing import Any

import hushdoc_tiny_vt5 as tiny
import numpy as np
import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from hushdoc.artifact import onnx_scan
from hushdoc.errors import ParityError
from hushdoc.runtime.session import Session
from hushdoc_export import graph, quantize, seq2seq
from hushdoc_training.models.vt5 import IGNORED, VT5

pytestmark = pytest.mark.slow  # three graphs are traced

NOTES = {"hushdoc.certificate_id": "ab" * 16}


def trained() -> VT5:
    """Returns a model that has learned an answer for each of a few rows."""
    model = tiny.start().model
    inputs, targets = tiny.rows([9, 4, 30])
    chosen = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(chosen, lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        model.losses(inputs, targets).mean().backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def model() -> VT5:
    return trained()


@pytest.fixture(scope="module")
def protos(model: VT5) -> dict[str, Any]:
    return {
        name: quantize.optimized(part.traced(fused=True), "basic")
        for name, part in seq2seq.parts(model, max_tokens=64).items()
    }


def loaded(protos: dict[str, Any]) -> dict[str, Session]:
    contents = {name: graph.serialize(proto, notes=NOTES) for name, proto in protos.items()}
    assert all(onnx_scan.scan(content).items() >= NOTES.items() for content in contents.values())
    return {name: Session(content) for name, content in contents.items()}


@pytest.fixture(scope="module")
def sessions(protos: dict[str, Any]) -> dict[str, Session]:
    return loaded(protos)


def arrays(lengths: list[int]) -> tuple[dict[str, Any], Any]:
    inputs, targets = tiny.rows(lengths)
    return {name: value.numpy() for name, value in inputs.items()}, targets.numpy()


@pytest.mark.parametrize("lengths", [[9, 4, 30], [5], [64, 2]])
def test_forced_tokens_get_the_models_logits(
    model: VT5, sessions: dict[str, Session], lengths: list[int]
) -> None:
    assert seq2seq.compare(model, sessions, *arrays(lengths)) <= 1e-4


def test_another_models_graphs_are_refused(sessions: dict[str, Session]) -> None:
    with pytest.raises(ParityError, match="forced tokens"):
        seq2seq.compare(tiny.start().model, sessions, *arrays([9, 4]))


def test_answers_are_those_that_transformers_generates(
    model: VT5, sessions: dict[str, Session]
) -> None:
    inputs, targets = tiny.rows([9, 4, 30])
    words = (inputs[name] for name in ("input_ids", "bbox", "attention_mask"))
    with torch.no_grad():
        states, mask = model.encode(*words, model.visual(inputs["pixel_values"]))
        generated = model.t5.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            max_new_tokens=8,
            do_sample=False,
        )
    learned = targets[targets != IGNORED].tolist()
    assert len(set(learned)) > 5  # so that equal answers are no accident of one token
    assert generated[generated > 0].tolist() == learned
    given = {name: value.numpy() for name, value in inputs.items()}
    tokens = np.zeros((3, 1), dtype=np.int64)
    for _ in range(generated.shape[1] - 1):
        answered = seq2seq.logits(sessions, given, tokens.tolist())
        tokens = np.concatenate([tokens, answered[:, -1].argmax(-1)[:, None]], axis=1)
    for expected, found in zip(generated.tolist(), tokens.tolist(), strict=True):
        end = expected.index(1) + 1
        assert found[:end] == expected[:end]


def test_the_encoder_hands_out_keys_and_values_alone(sessions: dict[str, Session]) -> None:
    cross = [f"cross.{layer}.{what}" for layer in (0, 1) for what in ("key", "value")]
    assert list(sessions["encoder"].outputs) == ["encoder_mask", *cross]
    assert [name for name in sessions["decoder"].inputs if name.startswith("cross")] == cross


def test_a_tied_table_is_quantized_for_both_its_readers(
    protos: dict[str, Any], sessions: dict[str, Session]
) -> None:
    rounded = quantize.int8(protos["decoder"], per_channel=False)
    inputs, targets = arrays([9, 4, 30])
    start = np.concatenate([np.zeros((3, 1), dtype=np.int64), targets[:, :2]], axis=1).tolist()
    expected = seq2seq.logits(sessions, inputs, start)
    found = seq2seq.logits({**sessions, **loaded({"decoder": rounded})}, inputs, start)
    lengths = np.linalg.norm(expected, axis=-1) * np.linalg.norm(found, axis=-1)
    assert ((expected * found).sum(-1) / lengths).min() > 0.99
    assert (expected.argmax(-1) == found.argmax(-1)).all()
    assert len(rounded.SerializeToString()) < len(protos["decoder"].SerializeToString()) / 2
