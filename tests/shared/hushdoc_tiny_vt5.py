"""A tiny VT5 with random weights, and rows of it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from hushdoc_training.models import vt5_start
from hushdoc_training.models.vt5 import IGNORED
from hushdoc_training.models.vt5_start import TINY, TINY_IMAGE, VT5Start

WORDS = "total due invoice number date 2026-11-23 amount 1,234.56 tax no. sender receiver a.b@c.de"


@functools.cache
def tokenizer_json() -> str:
    """Returns a tokenizer that was learned from a few words."""
    return vt5_start.tokenizer([WORDS] * 3, vocab_size=120)


def start(*, image: bool = True) -> VT5Start:
    """Returns a random model, in eval mode, that answers differently from page to page."""
    torch.manual_seed(1)
    made = vt5_start.from_nothing(tokenizer_json(), size=TINY, image=TINY_IMAGE if image else None)
    made.model.eval()
    return made


def rows(
    lengths: Sequence[int], *, answers: Sequence[int] = (3, 5), image: bool = True, seed: int = 2
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns inputs of invented rows with so many tokens, padded, and answers for them."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    at = torch.arange(longest)
    mask = (at < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(3, 60, (len(lengths), longest), generator=generator)
    corners = torch.randint(0, 1001, (len(lengths), longest, 2, 2), generator=generator)
    inputs = {
        "input_ids": ids * mask,
        "bbox": corners.sort(2).values.flatten(2) * mask[..., None],
        "attention_mask": mask,
    }
    if image:
        side = TINY_IMAGE["image_size"]
        inputs["pixel_values"] = torch.randn(len(lengths), 3, side, side, generator=generator)
    targets = torch.randint(3, 60, (len(lengths), max(answers)), generator=generator)
    for row in range(len(lengths)):
        end = answers[row % len(answers)]
        targets[row, end - 1] = 1
        targets[row, end:] = IGNORED
    return inputs, targets
