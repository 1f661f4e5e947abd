"""Training of a pointer's reader alone: what the encoder leaves of a window is computed once.

Where the reader's last layer alone learns, so is what that layer reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional

from hushdoc.runtime.questions import QuestionEncoder
from hushdoc_training.models.pointer import IGNORED, Pointer, losses_of_scores
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.recipes.docvqa.rows import Example
from hushdoc_training.recipes.kie.examples import attention
from hushdoc_training.recipes.kie.frozen_encoder import MOST_KEPT, held
from hushdoc_training.recipes.kie.records import mixed_precision


class Read(NamedTuple):
    """What is kept of an example: states of its window, and of its questions with their mask.

    Of questions that the last layer alone reads there is one state each, and no mask.
    """

    example: Example  # so that its id stays its own
    page: torch.Tensor
    asked: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor


class FrozenEncoder:
    """A pointer whose encoder nothing trains, with the reader that is, or its last layer.

    Each window is encoded alone, so that what is kept of it depends on no other.

    Attributes:
        model: The same weights and names as the whole model's, of which what learns alone computes:
            what is released is watched and saved whole.
    """

    def __init__(self, model: Pointer, encoder: QuestionEncoder, *, device: torch.device) -> None:
        """Keeps the model, whose reader must be all of it that learns, without dropout."""
        self._last = isinstance(model.reader.ends, Whitened)
        self.model = held(model, but=model.reader.ends if self._last else model.reader)
        self._model, self._encoder, self._device = model, encoder, device
        self._kept: dict[int, Read] = {}
        self._numbers = 0

    def losses_of(self, examples: Sequence[Example]) -> torch.Tensor:
        """Returns each window's loss, shape [examples], as `Pointer.losses` has it."""
        read = [self._read(example) for example in examples]
        reader = self._model.reader
        pages, asked = _stacked([one.page for one in read]), _stacked([one.asked for one in read])
        mask = _stacked([one.mask.new_ones(len(one.page)) for one in read])
        targets = _stacked([one.targets for one in read], value=IGNORED)
        with mixed_precision(self._device), attention(self._device):
            if self._last:
                scores = reader.scores(pages, asked)
            else:
                scores = reader(pages, mask, asked, _stacked([one.mask for one in read]))
            return losses_of_scores(scores, mask, targets)

    def _read(self, example: Example) -> Read:
        if id(example) in self._kept:
            return self._kept[id(example)]
        batch = self._encoder.pointed([[row.asked for row in example.rows]])
        inputs = {name: torch.from_numpy(value).to(self._device) for name, value in batch.items()}
        masks = inputs["attention_mask"], inputs["question_mask"]
        with torch.no_grad(), mixed_precision(self._device), attention(self._device):
            page, asked = self._model.encoded(**inputs)
            if self._last:
                asked = self._model.reader.read(page, masks[0], asked, masks[1])
        targets = torch.tensor([row.target.tolist() for row in example.rows], device=self._device)
        read = Read(example, page[0].float(), asked[0].float(), masks[1][0], targets)
        if self._numbers + page.numel() + asked.numel() <= MOST_KEPT:
            self._kept[id(example)] = read
            self._numbers += page.numel() + asked.numel()
        return read


def _stacked(parts: Sequence[torch.Tensor], *, value: int = 0) -> torch.Tensor:
    """Returns tensors as one, each filled up to the largest size in every axis."""
    most = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]

    def filled(part: torch.Tensor) -> torch.Tensor:
        missing = [size - own for size, own in zip(most, part.shape, strict=True)]
        ends = [end for more in reversed(missing) for end in (0, more)]
        return functional.pad(part, ends, value=value)

    return torch.stack([filled(part) for part in parts])
