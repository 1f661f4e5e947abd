"""Batches of windows for training without privacy: shuffled, and of similar lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.runtime.encoding import Encoder
from hushdoc_training.recipes.ordering import in_order
from hushdoc_training.recipes.records import Window, shuffled_segments, windows_of

POOL = 32
"""Batches that are sorted by length together."""


def shuffled_windows(
    documents: Sequence[LabelledDocument],
    encoder: Encoder,
    labels: LabelSet,
    *,
    share: float,
    generator: np.random.Generator,
) -> list[Window]:
    """Returns all windows; in a share of the documents segments come in another order."""
    made = []
    for labelled in in_order(documents, encoder.preprocessing):
        moved = generator.random() < share
        item = shuffled_segments(labelled, generator) if moved else labelled
        made.extend(windows_of(item, encoder, labels))
    return made


def epoch_batches(
    windows: Sequence[Window], batch_size: int, *, generator: np.random.Generator
) -> list[list[Window]]:
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
