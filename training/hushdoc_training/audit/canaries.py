"""Canaries: made-up documents that training notices as much as it can notice any document.

Each has a row of the table for itself, in which it says one thing so often that its gradient is cut
to the clipping norm. Half of them are trained on. Who then looks at their rows sees as much of one
document as DP-SGD ever shows of any, so what epsilon and delta say about true and false positive
rates holds for exactly this. Rows are not shared: one training shows all canaries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc.hashing import Features
from hushdoc_training.audit.roc import Attack, measured

METHOD = "canary documents"

COPIES = 64
"""Items of a canary, each a sequence of its own, so that transitions learn nothing from them."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """Training data of a table; `sequences` and `records` are where each begins, and the end."""

    features: Features
    labels: Numbers
    sequences: Numbers
    records: Numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Canaries:
    """Which rows belong to canaries, planted and left out, and the label that all of them have."""

    planted: npt.NDArray[np.int32]
    left_out: npt.NDArray[np.int32]
    label: int

    def attack(self, weights: npt.NDArray[np.floating]) -> Attack:
        """Returns how well the rows of planted canaries distinguish them from the others.

        Each row of the table is in units of its own scale, where they differ.
        """

        def margins(rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
            own = weights[rows].astype(np.float64)
            return own[:, self.label] - np.delete(own, self.label, axis=1).mean(axis=1)

        return measured(METHOD, margins(self.planted), margins(self.left_out), unit="document")


def plant(
    data: Data, *, rows: int, count: int, label: int, generator: np.random.Generator
) -> tuple[Data, Canaries]:
    """Returns data with canaries in rows that no item has, and as many rows that are left out."""
    free = np.flatnonzero(np.bincount(data.features.indices, minlength=rows) == 0)
    if len(free) < 2 * count:
        raise ValueError(f"{len(free)} rows are free; expected {2 * count}. Use a larger table.")
    chosen = generator.permutation(free)[: 2 * count].astype(np.int32)
    canaries = Canaries(planted=chosen[:count], left_out=chosen[count:], label=label)
    items, added = data.features.num_items, count * COPIES
    each = np.arange(1, added + 1)
    made = Data(
        features=Features(
            indices=np.concatenate([data.features.indices, canaries.planted.repeat(COPIES)]),
            offsets=np.concatenate([data.features.offsets, data.features.offsets[-1] + each]),
        ),
        labels=np.concatenate([data.labels, np.full(added, label, dtype=np.int64)]),
        sequences=np.concatenate([data.sequences, items + each]),
        records=np.concatenate([data.records, items + each[COPIES - 1 :: COPIES]]),
    )
    return made, canaries
