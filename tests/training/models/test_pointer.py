from __future__ import annotations

from pathlib import Path

import hushdoc_tiny_models as tiny_models
import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from hushdoc_training.models import pointer
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.models.trained import Trained

NAMES = ("input_ids", "bbox", "attention_mask", "token_type_ids")


def rows(*lengths: tuple[int, int], width: int) -> dict[str, torch.Tensor]:
    """Returns inputs of rows with so many tokens of a question and of a window."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 40, (len(lengths), width), generator=generator)
    boxes = torch.zeros(len(lengths), width, 4, dtype=torch.int64)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, (question, window) in enumerate(lengths):
        mask[row, : question + window + 3] = 1
        types[row, question + 2 : question + 2 + window] = 1
    ids[mask == 0] = 0
    boxes[types == 1] = torch.tensor([10, 20, 300, 400])
    return dict(zip(NAMES, (ids, boxes, mask, types), strict=True))


@pytest.fixture(scope="module")
def model() -> Pointer:
    return pointer.pointer_on(tiny_models.model("layoutlm")).eval()


def test_a_rows_loss_is_the_mean_of_two_cross_entropies_over_words_and_none(model: Pointer) -> None:
    inputs = rows((2, 5), (3, 4), width=10)
    targets = torch.tensor([[5, 6], [0, 0]])
    with torch.no_grad():
        found = model.losses(inputs, targets).numpy()
        scores = model(**inputs).double().numpy()
    for row, places in enumerate([[0, 4, 5, 6, 7, 8], [0, 5, 6, 7, 8]]):
        ends = [
            logsumexp(scores[row, places, end]) - scores[row, int(targets[row, end]), end]
            for end in (0, 1)
        ]
        assert found[row] == pytest.approx(np.mean(ends), rel=1e-5)


def test_a_rows_loss_does_not_depend_on_its_batch(model: Pointer) -> None:
    alone = {name: part[:1, :10] for name, part in rows((2, 5), (1, 20), width=24).items()}
    together = rows((2, 5), (1, 20), width=24)
    targets = torch.tensor([[4, 5], [7, 9]])
    with torch.no_grad():
        assert float(model.losses(alone, targets[:1])) == pytest.approx(
            float(model.losses(together, targets)[0]), rel=1e-5
        )


def test_a_window_without_words_can_only_have_no_answer(model: Pointer) -> None:
    with torch.no_grad():
        assert float(model.losses(rows((3, 0), width=6), torch.tensor([[0, 0]]))) == 0.0


@pytest.mark.parametrize("architecture", ["layoutlm", "lilt", "layoutlmv3", "bert", "roberta"])
def test_pointers_are_kept(architecture: str, tmp_path: Path) -> None:
    model = pointer.pointer_on(tiny_models.model(architecture)).eval()
    inputs = rows((2, 5), (3, 4), width=10)
    with torch.no_grad():
        model.inner.base_model.embeddings.token_type_embeddings.weight[1] += 1  # type: ignore[operator, union-attr]
        model.save(tmp_path)
        found = pointer.load(tmp_path)(**inputs)
        assert found.shape == (2, 10, 2)
        assert torch.equal(found, model(**inputs))
        assert not torch.equal(
            found, model(**inputs | {"token_type_ids": torch.zeros_like(inputs["input_ids"])})
        )


def test_a_new_pointer_reads_words_as_its_encoder_did() -> None:
    encoder = tiny_models.model("layoutlm")
    inputs = rows((2, 5), (3, 4), width=10)
    with torch.no_grad():
        before = encoder.hidden(*list(inputs.values())[:3])
        model = pointer.pointer_on(encoder)
        after = model.inner.base_model(**inputs).last_hidden_state
    torch.testing.assert_close(after, before)


def test_biases_of_pointers_can_be_trained_alone(model: Pointer) -> None:
    pointer.freeze(model, trained=Trained.of("biases"))
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    assert "inner.classifier.weight" in trained
    assert "inner.classifier.bias" not in trained  # it adds to all scores alike
    assert not any("token_type" in name or "word_emb" in name for name in trained)
    model.requires_grad_(True)
