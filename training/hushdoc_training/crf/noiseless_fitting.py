"""Noiseless fitting: the training of private tables without its noise, and of few words.

No guarantee follows from it: what comes out is not to be released, and `filling.noisy_fill` makes a
table to release of it. The gradient of a document is clipped as in private training, so that none
weighs more than others. Every step leaves each label a weight in its top_features_per_label rows
alone (Blumensath, Davies 2009, iterative hard thresholding). That is what hides most words: a row
without a weight can't be distinguished from a made-up one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc.hashing import Features
from hushdoc_training.crf.chain import Numbers
from hushdoc_training.crf.fitting import FittedTable, occurrences, require_labels
from hushdoc_training.crf.private_fitting import Settings, Start, Training, data_of
from hushdoc_training.randomness.secret_stream import SecretStream

Floats = npt.NDArray[np.float64]

STEPS = 24
"""Steps, each over all documents."""

TOP_FEATURES_PER_LABEL = 128
"""Rows that are left a weight for each label."""

_FREE = 4
"""Steps before any row is set to zero: large weights have to emerge first."""


def fit_without_noise(
    features: Features,
    labels: npt.NDArray[np.int64],
    *,
    sequences: Numbers,
    records: Numbers,
    start: Start,
    settings: Settings,
    steps: int = STEPS,
    top_features_per_label: int | None = TOP_FEATURES_PER_LABEL,
) -> FittedTable:
    """Returns what was learned, with gaps where no record has a row; cf. `fit_private`."""
    require_labels(features, labels, sequences, start.tags)
    data = data_of(features, labels, sequences, records, start)
    plan = _Noiseless(steps=steps, expected_records=max(1, len(data.records)))
    training = _Thresholded(data, start, plan, settings, SecretStream())
    training.kept = kept = (
        len(data.rows) if top_features_per_label is None else top_features_per_label
    )
    rows, transitions = training.learn()
    scales = start.scales[data.rows][:, None]
    weights = np.full((len(start.scales), len(start.tags)), np.nan, dtype=np.float32)
    weights[data.rows] = hard_thresholded(rows / scales, kept) * scales
    return FittedTable(
        weights=weights,
        seen=occurrences(features, labels, rows=len(weights), columns=len(start.tags)),
        transitions=transitions.astype(np.float32),
        labels=start.tags,
    )


def hard_thresholded(rows: Floats, kept: int) -> Floats:
    """Returns rows, in units of their scales, of which `kept` speak for or against each label.

    All others are zero there; weights count from the mean of their row.

    Example:
        >>> hard_thresholded(np.array([[3.0, 3.1], [-1.0, 1.0], [0.0, 0.5]]), 1).tolist()
        [[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]]
    """
    if kept >= len(rows):
        return rows
    centred = rows - rows.mean(axis=1, keepdims=True)
    largest = np.argsort(np.abs(centred), axis=0, kind="stable")[len(rows) - kept :]
    made = np.zeros_like(rows)
    np.put_along_axis(made, largest, np.take_along_axis(centred, largest, axis=0), axis=0)
    return made


@dataclass(frozen=True, kw_only=True)
class _Noiseless:
    """Full batches, clipped, and nothing drawn."""

    steps: int
    expected_records: int
    sampling_rate: float = 1.0
    clipping_norm: float = 1.0
    noise_multiplier: float = 0.0


class _Thresholded(Training):
    """Training that sets all but some rows to zero after every step."""

    kept = 0
    _taken = 0

    def step(self) -> None:
        super().step()
        self._taken += 1
        if self._taken > _FREE:
            self.rows = hard_thresholded(self.rows, self.kept)
