"""Examples of private training: a record's windows, each with its share of the record's loss."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from hushdoc.runtime.encoding import EncodedPage, Encoder
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.recipes.kie.records import (
    IGNORED,
    Image,
    TensorBatch,
    Window,
    collate,
    mixed_precision,
)

FILLED_TO = 16
"""Windows are filled up to a multiple of so many tokens, so that more records share a pass."""

TRIAL_WINDOWS = ((9, 6), (5,), (7, 3, 8))
"""Lengths (tokens) of the windows of the invented records that the clipper is tested on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One window of a record.

    The sum over its tokens is multiplied by `scale`, so that the mean over a record's examples is
    the mean over the record's labelled tokens.
    """

    window: Window
    scale: float


def examples_of(record: Sequence[Window]) -> tuple[Example, ...]:
    """Returns a record's windows as examples; none where no token carries a label."""
    labelled = sum(int((window.targets != IGNORED).sum()) for window in record)
    if not labelled:
        return ()
    return tuple(Example(window=window, scale=len(record) / labelled) for window in record)


def length_of(example: Example, *, most: int) -> tuple[int, int]:
    """Returns how many tokens an example is filled up to, and whether (1) it has as many itself."""
    tokens = example.window.stop - example.window.start + 2  # special ones
    filled = _filled_length(tokens, most)
    return filled, int(tokens == filled)


def batch_of(encoder: Encoder, examples: Sequence[Example]) -> TensorBatch:
    """Returns examples as one batch, filled up to the most that `length_of` says of them."""
    batch = collate(encoder, [example.window for example in examples])
    settings = encoder.preprocessing
    tokens = batch.input_ids.shape[1]
    missing = _filled_length(tokens, settings.max_tokens) - tokens
    return replace(
        batch,
        input_ids=functional.pad(batch.input_ids, (0, missing), value=settings.pad_id),
        bbox=functional.pad(batch.bbox, (0, 0, 0, missing)),
        attention_mask=functional.pad(batch.attention_mask, (0, missing)),
        targets=functional.pad(batch.targets, (0, missing), value=IGNORED),
    )


def losses_of(
    model: TokenClassifier, encoder: Encoder, examples: Sequence[Example], *, device: torch.device
) -> torch.Tensor:
    """Returns the scaled sum of every example's cross-entropies, shape [examples]."""
    batch = batch_of(encoder, examples)
    with mixed_precision(device), attention(device):
        logits = model(*batch.inputs(device))
    each = functional.cross_entropy(
        logits.float().transpose(1, 2),
        batch.targets.to(device),
        ignore_index=IGNORED,
        reduction="none",
    )
    return each.sum(1) * each.new_tensor([example.scale for example in examples])


def _filled_length(tokens: int, most: int) -> int:
    """Returns the next multiple, or a full window's tokens where that is more."""
    return max(tokens, min(most, -(-tokens // FILLED_TO) * FILLED_TO))


def attention(device: torch.device) -> AbstractContextManager[None]:
    """Returns how attention is computed where gradients are taken."""
    # On a CPU the fused kernel's backward pass takes more time than it saves at these lengths.
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


def trial_records(
    *, vocabulary: int, tags: int, image: ImagePreprocessing | None = None
) -> list[tuple[Example, ...]]:
    """Returns invented records, so that a test of the clipper reads no protected document."""
    generator = np.random.default_rng(0)
    records = [
        examples_of(tuple(_window(length, vocabulary, tags, generator) for length in lengths))
        for lengths in TRIAL_WINDOWS
    ]
    if image is None:
        return records
    return [_with_image(examples, noise_of(image, generator)) for examples in records]


def noise_of(image: ImagePreprocessing, generator: np.random.Generator) -> Image:
    """Returns an invented page's image."""
    noise = generator.standard_normal((3, image.height, image.width), dtype=np.float32)
    return lambda: noise


def _with_image(examples: Sequence[Example], image: Image) -> tuple[Example, ...]:
    return tuple(
        replace(example, window=replace(example.window, image=image)) for example in examples
    )


def _window(length: int, vocabulary: int, tags: int, generator: np.random.Generator) -> Window:
    page = invented_page(length, vocabulary, generator)
    targets = np.where(np.arange(length) % 4, generator.integers(0, tags, length), IGNORED)
    return Window(page=page, start=0, stop=length, targets=targets)


def invented_page(length: int, vocabulary: int, generator: np.random.Generator) -> EncodedPage:
    """Returns a page of random tokens, each a word, at random places."""
    corners = np.sort(generator.integers(0, 1001, (length, 2, 2)), axis=1)
    ids = generator.integers(0, vocabulary, length)
    return EncodedPage(
        ids=ids,
        boxes=corners.reshape(length, 4),
        words=np.arange(length),
        first=np.ones(length, dtype=np.bool_),
        num_words=length,
        cut_words=(),
    )
