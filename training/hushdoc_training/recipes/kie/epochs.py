"""Epochs of training without privacy: windows in a random order, batched by length, with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from hushdoc.document.page import Page
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc.runtime.encoding import Encoder
from hushdoc_training.recipes.kie.records import (
    BoolArray,
    TensorBatch,
    Window,
    in_order,
    windows_of,
)
from hushdoc_training.runs import loop
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.run_folder import Run

POOL = 32
"""Batches that are sorted by length together."""


class Ranged(Protocol):
    """A range of a page's tokens, with whatever is learned from it."""

    @property
    def start(self) -> int:
        """Its first token."""

    @property
    def stop(self) -> int:
        """One after its last."""


Part = TypeVar("Part", bound=Ranged)


class Passes(Protocol):
    """What the settings of any training without privacy say; see `PlainSettings`."""

    @property
    def epochs(self) -> float:
        """Passes over the windows."""

    @property
    def batch_size(self) -> int:
        """Windows in one step."""

    @property
    def learning_rate(self) -> float:
        """The peak of AdamW's."""

    @property
    def seed(self) -> int:
        """Of the order of windows; no secret."""


def train(
    run: Run,
    windows: Sequence[Part],
    settings: Passes,
    *,
    model: nn.Module,  # is changed
    loss: Callable[[list[Part], int, int], torch.Tensor],  # of a batch, its epoch and step
    save: Callable[[Path], None],  # writes the checkpoint
    title: str,
    quiet: bool,
) -> Outcome:
    """Takes all steps over the windows by AdamW, and keeps a checkpoint after the last one."""
    per_epoch = math.ceil(len(windows) / settings.batch_size)
    steps = max(1, round(per_epoch * settings.epochs))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=0.01, fused=True
    )
    batches: list[list[Part]] = []
    made_for = -1

    def step(number: int) -> float:
        nonlocal batches, made_for
        epoch, at = divmod(number - 1, per_epoch)
        if epoch != made_for:
            generator = np.random.default_rng((settings.seed, epoch))
            batches = epoch_batches(windows, settings.batch_size, generator=generator)
            made_for = epoch
        _warm_up_and_decay(optimizer, settings.learning_rate, number, steps)
        found = loss(batches[at], epoch, number)
        found.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(found.detach())

    return loop.train_without_privacy(
        run,
        steps=steps,
        model=model,
        optimizer=optimizer,
        step=step,
        save=save,
        title=title,
        quiet=quiet,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def _warm_up_and_decay(
    optimizer: torch.optim.Optimizer, peak: float, number: int, steps: int
) -> None:
    """Sets the learning rate of a step: 6 % of all steps upwards, the rest downwards to zero."""
    warmup = max(1, round(0.06 * steps))
    if number <= warmup:
        share = number / warmup
    else:
        share = max(0.0, (steps - number + 1) / max(1, steps - warmup))
    set_rate(optimizer, peak * share)


def shuffled_windows(
    documents: Sequence[LabelledDocument],
    encoder: Encoder,
    labels: LabelSet,
    *,
    share: float,
    generator: np.random.Generator,
    annotated: Sequence[BoolArray] | None = None,  # of each document, as `Window.annotated`
) -> list[Window]:
    """Returns all windows; in a share of the documents segments come in another order."""
    made = []
    for number, labelled in enumerate(in_order(documents, encoder.preprocessing)):
        moved = generator.random() < share
        item = shuffled_segments(labelled, generator) if moved else labelled
        windows = windows_of(item, encoder, labels)
        if annotated is not None:
            windows = [replace(window, annotated=annotated[number]) for window in windows]
        made.extend(windows)
    return made


def epoch_batches(
    windows: Sequence[Part], batch_size: int, *, generator: np.random.Generator
) -> list[list[Part]]:
    """Returns an epoch's batches: random, but of similar lengths so that little is padding."""
    order = generator.permutation(len(windows))
    batches = []
    for first in range(0, len(order), POOL * batch_size):
        chosen = sorted(
            order[first : first + POOL * batch_size],
            key=lambda index: windows[index].stop - windows[index].start,
        )
        for at in range(0, len(chosen), batch_size):
            batches.append([windows[index] for index in chosen[at : at + batch_size]])
    return [batches[index] for index in generator.permutation(len(batches))]


def shuffled_segments(
    labelled: LabelledDocument, generator: np.random.Generator
) -> LabelledDocument:
    """Returns the document with each page's segments in a random order, labels moved along."""
    pages: list[Page] = []
    spans: list[Span] = []
    for number, page in enumerate(labelled.document.pages):
        starts = [
            index
            for index, word in enumerate(page.words)
            if index == 0 or word.segment is None or word.segment != page.words[index - 1].segment
        ]
        inside = {
            index
            for span in labelled.spans
            if span.page == number
            for index in range(span.start + 1, span.stop)
        }
        starts = [index for index in starts if index not in inside]
        blocks = list(zip(starts, [*starts[1:], len(page.words)], strict=True))
        order = [index for at in generator.permutation(len(blocks)) for index in range(*blocks[at])]
        moved = {old: new for new, old in enumerate(order)}
        pages.append(replace(page, words=tuple(page.words[index] for index in order)))
        spans.extend(
            replace(span, start=moved[span.start], stop=moved[span.start] + span.stop - span.start)
            for span in labelled.spans
            if span.page == number
        )
    document = replace(labelled.document, pages=tuple(pages))
    return LabelledDocument(
        document=document,
        spans=tuple(spans),
        provider=labelled.provider,
        document_type=labelled.document_type,
    )


def with_token_noise(batch: TensorBatch, share: float) -> TensorBatch:
    """Returns the batch with some tokens replaced by others of it; boxes and targets stay."""
    inside = batch.attention_mask.bool()
    inside[:, 0] = False
    inside &= batch.bbox[..., 0] < batch.bbox[..., 2]  # not the closing token, a box of one point
    rates = torch.rand(len(inside), 1) * share
    chosen = inside & (torch.rand(inside.shape) < rates)
    ids = batch.input_ids.clone()
    pool = ids[inside]
    ids[chosen] = pool[torch.randint(len(pool), (int(chosen.sum()),))]
    return replace(batch, input_ids=ids)
