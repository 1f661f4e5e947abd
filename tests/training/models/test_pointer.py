from __future__ import annotations

from pathlib import Path

import hushdoc_tiny_models as tiny_models
import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from hushdoc.errors import CheckpointError
from hushdoc_training.models import pointer
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.models.trained import Trained

NAMES = ("input_ids", "bbox", "attention_mask", "question_ids", "question_mask")


def windows(*sizes: tuple[int, list[int]], width: int, length: int = 8) -> dict[str, torch.Tensor]:
    """Returns inputs of windows of so many words, each with questions of so many tokens."""
    generator = torch.Generator().manual_seed(1)
    most = max(len(questions) for _, questions in sizes)
    ids = torch.randint(4, 40, (len(sizes), width), generator=generator)
    asked = torch.randint(4, 40, (len(sizes), most, length), generator=generator)
    boxes = torch.zeros(len(sizes), width, 4, dtype=torch.int64)
    mask, asked_mask = torch.zeros_like(ids), torch.zeros_like(asked)
    asked[..., 0], asked_mask[..., 0] = 2, 1
    for row, (words, questions) in enumerate(sizes):
        mask[row, : words + 2] = 1
        boxes[row, 1 : words + 1] = torch.tensor([10, 20, 300, 400])
        for place, tokens in enumerate(questions):
            asked_mask[row, place, : tokens + 2] = 1
    ids[mask == 0], asked[asked_mask == 0] = 0, 0
    return dict(zip(NAMES, (ids, boxes, mask, asked, asked_mask), strict=True))


@pytest.fixture(scope="module")
def model() -> Pointer:
    return pointer.pointer_on(tiny_models.model("layoutlm")).eval()


def test_a_windows_loss_is_its_questions_mean_over_words_and_none(model: Pointer) -> None:
    inputs = windows((5, [2, 3]), (4, [3]), width=7)
    targets = torch.tensor([[[2, 3], [0, 0]], [[1, 4], [pointer.IGNORED] * 2]])
    with torch.no_grad():
        found = model.losses(inputs, targets).numpy()
        scores = model(**inputs).double().numpy()
    for row, (words, questions) in enumerate([(5, 2), (4, 1)]):
        ends = [
            logsumexp(scores[row, : words + 1, question, end])
            - scores[row, int(targets[row, question, end]), question, end]
            for question in range(questions)
            for end in (0, 1)
        ]
        assert found[row] == pytest.approx(np.mean(ends), rel=1e-5)


def test_scores_depend_on_no_other_window_or_question(model: Pointer) -> None:
    together = windows((5, [2, 3]), (20, [6]), width=24)
    alone = {
        name: value[:1, :7] if "question" not in name else value[:1, :1, :4]
        for name, value in together.items()
    }
    with torch.no_grad():
        torch.testing.assert_close(
            model(**alone)[0, :7, 0], model(**together)[0, :7, 0], atol=1e-5, rtol=1e-5
        )


def test_a_reader_reads_standardised_states_of_questions(tmp_path: Path) -> None:
    model = pointer.pointer_on(tiny_models.model("layoutlm")).eval()
    generator = torch.Generator().manual_seed(1)
    questions = [torch.randint(4, 40, (length,), generator=generator) for length in (3, 9, 6)]
    pointer.standardise(model, questions)
    seen: list[torch.Tensor] = []
    model.reader.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    inputs = windows((5, [1]), width=7)
    with torch.no_grad():
        for ids in questions:
            asked = {"question_ids": ids[None, None], "question_mask": torch.ones(1, 1, len(ids))}
            model(**inputs | {name: value.long() for name, value in asked.items()})
    states = torch.cat([tokens[0] for tokens in seen]).double()
    assert states.mean(0).abs().max() < 1e-5
    assert states.square().mean() == pytest.approx(1, rel=1e-5)
    model.save(tmp_path)
    assert torch.equal(pointer.load(tmp_path).reader.centre, model.reader.centre)


def test_a_window_without_words_can_only_have_no_answer(model: Pointer) -> None:
    with torch.no_grad():
        assert float(model.losses(windows((0, [3]), width=4), torch.tensor([[[0, 0]]]))) == 0.0


@pytest.mark.parametrize("architecture", ["layoutlm", "lilt", "layoutlmv3", "bert", "roberta"])
def test_pointers_are_kept(architecture: str, tmp_path: Path) -> None:
    model = pointer.pointer_on(tiny_models.model(architecture)).eval()
    inputs = windows((5, [2, 3]), (4, [3]), width=10)
    with torch.no_grad():
        model.save(tmp_path)
        found = pointer.load(tmp_path)(**inputs)
        assert found.shape == (2, 10, 2, 2)
        assert torch.equal(found, model(**inputs))
        other = inputs["question_ids"] * 0 + inputs["question_mask"] * 5
        assert not torch.equal(found, model(**inputs | {"question_ids": other}))


def test_a_folder_without_a_pointers_weights_is_refused(model: Pointer, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="can't be read"):
        pointer.load(tmp_path)
    model.save(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="can't be read"):
        pointer.load(tmp_path)


def test_the_reader_is_always_trained_and_other_parameters_as_chosen(model: Pointer) -> None:
    for word in ("output", "biases"):
        pointer.freeze(model, trained=Trained.of(word))
        trained = [name for name, value in model.named_parameters() if value.requires_grad]
        assert {name for name in trained if name.startswith("reader.")} == {
            name for name, _ in model.named_parameters() if name.startswith("reader.")
        }
        others = [name for name in trained if not name.startswith("reader.")]
        assert bool(others) == (word == "biases")
        assert not any("pooler" in name or "word_emb" in name for name in trained)
    model.requires_grad_(True)
