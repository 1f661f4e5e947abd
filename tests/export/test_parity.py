"""The graph answers like the checkpoint, for every architecture, or it is not sealed."""

from __future__ import annotations

from typing import Any

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import numpy as np
import pytest
import torch

from hushdoc.artifact.artifact import read_unverified
from hushdoc.errors import CheckpointError, ParityError
from hushdoc.runtime.session import Session
from hushdoc_export import graph, parity

SHAPES = [[2, 12], [1, 3], [5, 2], [3, 33], [1, 64]]


def test_a_real_graph_keeps_its_models_answers() -> None:
    traceable = tiny_models.traceable(tiny_models.model("layoutlm"))
    session = Session(graph.serialize(traceable.traced(), notes={}))
    result = parity.compare(traceable, session)
    assert result["shapes"] == SHAPES
    assert result["maxDifference"] <= parity.TOLERANCE
    assert result["argmaxAgreement"] == 1.0
    assert result["answers"] > 100


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_every_architecture_is_sealed_with_its_parity(architecture: str) -> None:
    (step,) = read_unverified(tiny.sealed(architecture)).certificate.derivation
    assert step["architecture"] == architecture
    assert step["parity"]["shapes"] == SHAPES
    assert step["parity"]["maxDifference"] <= parity.TOLERANCE
    assert step["parity"]["argmaxAgreement"] == 1.0


class Stub:
    """A session that answers what a function says; the real graph can't be made to lie."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [self.answer(inputs)]


def logits(input_ids: Any, bbox: Any, attention_mask: Any) -> torch.Tensor:
    """A model whose answer depends on every input, and is of the size of one."""
    shares = torch.tensor([0.7, 0.2, 0.1])
    return (input_ids + bbox.sum(-1) * attention_mask)[..., None] * shares / 5000


def tensors(inputs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value) for name, value in inputs.items()}


def answers(change: Any) -> Stub:
    def answer(inputs: dict[str, np.ndarray]) -> np.ndarray:
        return change(logits(**tensors(inputs)).numpy().copy(), inputs)

    return Stub(answer)


def compare(session: Any) -> dict[str, Any]:
    return parity.compare(tiny_models.traceable(logits), session)


def test_the_same_answers_agree() -> None:
    result = compare(answers(lambda found, inputs: found))
    assert (result["maxDifference"], result["shapes"]) == (0, SHAPES)


def test_a_difference_names_its_shape_and_figure() -> None:
    def last_row_only(found: np.ndarray, inputs: dict[str, np.ndarray]) -> np.ndarray:
        if len(found) == 5:
            found[-1, 0] += 0.5
        return found

    with pytest.raises(ParityError, match=r"'input_ids': \[5, 2\].* differ by 0.5"):
        compare(answers(last_row_only))


def test_a_difference_is_relative_to_large_answers() -> None:
    def many(**inputs: Any) -> torch.Tensor:
        return 1e4 * logits(**inputs)

    slightly = answers(lambda found, inputs: 1e4 * found * (1 + 5e-5))
    assert 0 < parity.compare(tiny_models.traceable(many), slightly)["maxDifference"] <= 5.1e-5


def test_another_label_counts_unless_the_margin_is_rounding() -> None:
    def close(input_ids: Any, bbox: Any, attention_mask: Any) -> torch.Tensor:
        return input_ids[..., None] * torch.zeros(2) + torch.tensor([0.5, 0.50005])

    def clear(**inputs: Any) -> torch.Tensor:
        return close(**inputs) + torch.tensor([0.0, 1e-4])

    def swapped(model: Any) -> Stub:
        """Answers with the other label, by moving each logit no more than the tolerance."""
        return Stub(lambda inputs: model(**tensors(inputs)).numpy() + np.float32([9e-5, -9e-5]))

    assert parity.compare(tiny_models.traceable(close), swapped(close))["argmaxAgreement"] == 1.0
    measured = parity.compare(tiny_models.traceable(close), swapped(close), tolerance=None)
    assert measured["argmaxAgreement"] == 0.0
    with pytest.raises(ParityError, match="choose another label"):
        parity.compare(tiny_models.traceable(clear), swapped(clear))


def test_not_a_number_is_a_difference() -> None:
    with pytest.raises(ParityError, match="differ by nan"):
        compare(answers(lambda found, inputs: found * np.nan))


def test_another_shape_is_a_difference() -> None:
    with pytest.raises(ParityError, match="answers"):
        compare(answers(lambda found, inputs: found[:, :, :2]))


def test_what_stands_on_padding_does_not_count() -> None:
    def spoil_padding(found: np.ndarray, inputs: dict[str, np.ndarray]) -> np.ndarray:
        found[inputs["attention_mask"] == 0] = 99
        return found

    assert compare(answers(spoil_padding))["maxDifference"] == 0


def test_a_window_longer_than_the_models_positions_is_a_checkpoint_error() -> None:
    traceable = tiny_models.traceable(tiny_models.model("layoutlm", positions=40))
    session = Stub(lambda inputs: traceable.answer(inputs))
    with pytest.raises(CheckpointError, match=r"\[1, 64\].*declare what the model can read"):
        parity.compare(traceable, session)


def test_probes_are_sound() -> None:
    settings = tiny.preprocessing()
    for probe in tiny_models.traceable(None).probes:
        ids, boxes, mask = (probe[name] for name in ("input_ids", "bbox", "attention_mask"))
        assert (boxes[..., 0] <= boxes[..., 2]).all()
        assert (boxes[..., 1] <= boxes[..., 3]).all()
        assert boxes.max() <= 1000
        assert (mask.sum(1) >= 1).all()
        assert (ids[:, 0] == settings.cls_id).all()
        assert (ids[mask == 0] == settings.pad_id).all()
    assert mask.min() == 1
    assert tiny_models.traceable(None).probes[0]["attention_mask"].min() == 0
