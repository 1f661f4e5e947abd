"""The graph answers like the checkpoint, for every architecture, or it is not sealed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from hushdoc.artifact.artifact import read_unverified
from hushdoc.errors import CheckpointError, ParityError
from hushdoc.runtime.session import Session
from hushdoc_export import graph, parity

VOCABULARY = 86


def test_a_real_graph_keeps_its_models_answers(tiny: ModuleType) -> None:
    model = tiny.model("layoutlm")
    session = Session(graph.serialize(graph.export_torch(model, max_tokens=64), notes={}))
    result = parity.compare(
        model, session, preprocessing=tiny.preprocessing(), vocab_size=VOCABULARY
    )
    assert result.shapes == ((1, 3), (2, 12), (5, 2), (3, 33), (1, 64))
    assert result.max_difference <= parity.TOLERANCE
    assert result.argmax_agreement == 1.0
    assert result.num_tokens > 100


@pytest.mark.parametrize("architecture", ["layoutlm", "layoutlmv3", "lilt"])
def test_every_architecture_is_sealed_with_its_parity(tiny: ModuleType, architecture: str) -> None:
    (step,) = read_unverified(tiny.sealed(architecture)).certificate.derivation
    assert step["architecture"] == architecture
    assert step["parity"]["shapes"] == [[1, 3], [2, 12], [5, 2], [3, 33], [1, 64]]
    assert step["parity"]["maxDifference"] <= parity.TOLERANCE
    assert step["parity"]["argmaxAgreement"] == 1.0


class Stub:
    """A session that answers what a function says; the real graph can't be made to lie."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [self.answer(inputs)]


def logits(input_ids: Any, bbox: Any, attention_mask: Any) -> torch.Tensor:
    """A model whose answer depends on every input."""
    shares = torch.tensor([0.7, 0.2, 0.1])
    return (input_ids + bbox.sum(-1) * attention_mask)[..., None] * shares


def answers(change: Any) -> Stub:
    def answer(inputs: dict[str, np.ndarray]) -> np.ndarray:
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        return change(logits(**tensors).numpy().copy(), inputs)

    return Stub(answer)


def compare(session: Any, tiny: ModuleType) -> parity.ParityResult:
    return parity.compare(
        logits, session, preprocessing=tiny.preprocessing(), vocab_size=VOCABULARY
    )


def test_the_same_answers_agree(tiny: ModuleType) -> None:
    result = compare(answers(lambda found, inputs: found), tiny)
    assert result.max_difference == 0
    assert result.to_dict()["shapes"][-1] == [1, 64]


def test_a_difference_names_its_shape_and_figure(tiny: ModuleType) -> None:
    def last_row_only(found: np.ndarray, inputs: dict[str, np.ndarray]) -> np.ndarray:
        if len(found) == 5:
            found[-1, 0] += 0.5
        return found

    with pytest.raises(ParityError, match=r"shape \(5, 2\) .* differ by 0.5"):
        compare(answers(last_row_only), tiny)


def test_not_a_number_is_a_difference(tiny: ModuleType) -> None:
    with pytest.raises(ParityError, match="differ by nan"):
        compare(answers(lambda found, inputs: found * np.nan), tiny)


def test_another_shape_is_a_difference(tiny: ModuleType) -> None:
    with pytest.raises(ParityError, match="answers"):
        compare(answers(lambda found, inputs: found[:, :, :2]), tiny)


def test_what_stands_on_padding_does_not_count(tiny: ModuleType) -> None:
    def spoil_padding(found: np.ndarray, inputs: dict[str, np.ndarray]) -> np.ndarray:
        found[inputs["attention_mask"] == 0] = 99
        return found

    assert compare(answers(spoil_padding), tiny).max_difference == 0


def test_a_window_longer_than_the_models_positions_is_a_checkpoint_error(
    tiny: ModuleType,
) -> None:
    model = tiny.model("layoutlm", positions=40)
    with pytest.raises(CheckpointError, match="window of 64 tokens"):
        parity.compare(
            model,
            Stub(
                lambda inputs: (
                    model(**{k: torch.from_numpy(v) for k, v in inputs.items()}).detach().numpy()
                )
            ),
            preprocessing=tiny.preprocessing(),
            vocab_size=VOCABULARY,
        )


def test_invented_inputs_are_sound(tiny: ModuleType) -> None:
    settings = tiny.preprocessing()
    batch = parity.invent(
        (9, 20), settings, vocab_size=VOCABULARY, generator=np.random.default_rng(0)
    )
    assert (batch.bbox[..., 0] <= batch.bbox[..., 2]).all()
    assert (batch.bbox[..., 1] <= batch.bbox[..., 3]).all()
    assert batch.bbox.max() <= 1000
    assert (batch.attention_mask.sum(1) >= 1).all()
    assert batch.attention_mask.min() == 0
    assert (batch.input_ids[batch.attention_mask == 0] == settings.pad_id).all()
