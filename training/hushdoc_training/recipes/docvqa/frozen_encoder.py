"""Training of a pointer's reader alone: what the encoder leaves of a window is computed once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from hushdoc.runtime.questions import QuestionEncoder
from hushdoc_training.models.pointer import IGNORED, Pointer, losses_of_scores
from hushdoc_training.recipes.docvqa.rows import Example
from hushdoc_training.recipes.kie.examples import attention
from hushdoc_training.recipes.kie.frozen_encoder import MOST_KEPT, held
from hushdoc_training.recipes.kie.records import mixed_precision

Read = tuple[Example, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""An example, the states of its window, those of its questions with their mask, and its targets."""


class FrozenEncoder:
    """A pointer whose encoder nothing trains, with the reader that is.

    Each window is encoded alone, so that what is kept of it depends on no other.

    Attributes:
        model: The same weights and names as the whole model's, of which the reader alone computes:
            what is released is watched and saved whole.
    """

    def __init__(self, model: Pointer, encoder: QuestionEncoder, *, device: torch.device) -> None:
        """Keeps the model, whose reader must be all of it that learns, without dropout."""
        self.model = held(model, but=model.reader)
        self._model, self._encoder, self._device = model, encoder, device
        self._kept: dict[int, Read] = {}
        self._numbers = 0

    def losses_of(self, examples: Sequence[Example]) -> torch.Tensor:
        """Returns each window's loss, shape [examples], as `Pointer.losses` has it."""
        read = [self._read(example) for example in examples]
        words = max(page.shape[0] for _, page, *_ in read)
        questions, length = (max(asked.shape[axis] for _, _, asked, *_ in read) for axis in (0, 1))
        pages, masks, asked, asked_masks, targets = [], [], [], [], []
        for _, page, states, mask, target in read:
            more = words - page.shape[0]
            wider, others = length - states.shape[1], questions - states.shape[0]
            pages.append(functional.pad(page, (0, 0, 0, more)))
            masks.append(functional.pad(mask.new_ones(page.shape[0]), (0, more)))
            asked.append(functional.pad(states, (0, 0, 0, wider, 0, others)))
            asked_masks.append(functional.pad(mask, (0, wider, 0, others)))
            targets.append(functional.pad(target, (0, 0, 0, others), value=IGNORED))
        mask = torch.stack(masks)
        with mixed_precision(self._device), attention(self._device):
            scores = self._model.reader(
                torch.stack(pages), mask, torch.stack(asked), torch.stack(asked_masks)
            )
            return losses_of_scores(scores, mask, torch.stack(targets))

    def _read(self, example: Example) -> Read:
        if id(example) in self._kept:
            return self._kept[id(example)]
        batch = self._encoder.pointed([[row.asked for row in example.rows]])
        inputs = {name: torch.from_numpy(value).to(self._device) for name, value in batch.items()}
        with torch.no_grad(), mixed_precision(self._device), attention(self._device):
            page, asked = (states[0].float() for states in self._model.encoded(**inputs))
        targets = torch.tensor([row.target.tolist() for row in example.rows], device=self._device)
        read = (example, page, asked, inputs["question_mask"][0], targets)
        if self._numbers + page.numel() + asked.numel() <= MOST_KEPT:
            self._kept[id(example)] = read  # with the example, so that its id stays its own
            self._numbers += page.numel() + asked.numel()
        return read
