"""Linear chains over hashed features in numpy: marginals of labels, and gradients record by record.

CRFsuite gives no gradients, and what limits how much one record or one row may say has to look at
every update. Long sequences are cut into pieces of PIECE items, which are trained as sequences of
their own; only training does this, decoding never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hushdoc.hashing import Features

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

PIECE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """One record: the items of a document, or of whatever is protected as a whole."""

    rows: npt.NDArray[np.int32]  # its distinct rows, as numbers of `RecordSet.rows`
    places: npt.NDArray[np.int32]  # where in `rows` each feature of each item stands
    offsets: Numbers  # item i has the features `places[offsets[i] : offsets[i + 1]]`
    labels: Numbers
    pieces: Numbers  # where each piece begins, and the number of items at the end


@dataclass(frozen=True, kw_only=True, eq=False)
class Grouping:
    """Which items are one record, and what one record is, as who grouped them knows."""

    ends: Numbers  # where each record begins, in items, and the number of items at the end
    unit: str | None  # None where nobody said


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordSet:
    """Records, and the rows of the table that any of them reads, ascending."""

    rows: npt.NDArray[np.int32]
    records: tuple[Record, ...]
    unit: str | None = None  # what one record is


def record_set(
    features: Features,
    labels: npt.NDArray[np.int64],
    *,
    sequences: Numbers,
    records: Numbers | Grouping,
) -> RecordSet:
    """Returns the features of a corpus record by record; a record is one or more whole sequences.

    `sequences` and `records` hold where each begins, in items, and the number of items at the end.
    """
    grouping = records if isinstance(records, Grouping) else Grouping(ends=records, unit=None)
    ends = grouping.ends
    total = features.num_items
    if len(labels) != total or sequences[-1] != total or ends[-1] != total:
        raise ValueError(
            f"There are features of {total} items, labels of {len(labels)}, sequences of "
            f"{sequences[-1]} and records of {ends[-1]}; expected the same number."
        )
    if not np.isin(ends, sequences).all():
        raise ValueError("A record ends inside a sequence; expected whole sequences.")
    rows = np.unique(features.indices)
    pieces = _pieces(sequences)
    made = tuple(
        _record(features, labels, pieces, int(first), int(stop), rows)
        for first, stop in pairwise(ends)
    )
    return RecordSet(rows=rows, records=made, unit=grouping.unit)


def _pieces(sequences: Numbers) -> Numbers:
    cuts = [np.arange(first, stop, PIECE) for first, stop in pairwise(sequences)]
    return np.concatenate([*cuts, sequences[-1:]]).astype(np.int64)


def _record(
    features: Features,
    labels: npt.NDArray[np.int64],
    pieces: Numbers,
    first: int,
    stop: int,
    rows: npt.NDArray[np.int32],
) -> Record:
    start, end = features.offsets[first], features.offsets[stop]
    own, places = np.unique(features.indices[start:end], return_inverse=True)
    inside = pieces[(pieces >= first) & (pieces < stop)] - first
    return Record(
        rows=np.searchsorted(rows, own).astype(np.int32),
        places=places.astype(np.int32),
        offsets=features.offsets[first : stop + 1] - start,
        labels=np.asarray(labels[first:stop], dtype=np.int64),
        pieces=np.append(inside, stop - first),
    )


def item_scores(record: Record, weights: Floats) -> Floats:
    """Returns the sum of each item's features' weights, shape [items, labels]."""
    scores = np.zeros((len(record.labels), weights.shape[1]))
    counts = np.diff(record.offsets)
    filled = np.flatnonzero(counts)
    if len(filled):
        gathered = weights[record.places]
        scores[filled] = np.add.reduceat(gathered, record.offsets[:-1][filled], axis=0)
    return scores


def row_gradient(record: Record, residual: Floats) -> Floats:
    """Returns the gradient of `record.rows`, given the derivative by every item's scores."""
    counts = np.diff(record.offsets)
    columns = [
        np.bincount(record.places, np.repeat(column, counts), minlength=len(record.rows))
        for column in residual.T
    ]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginals:
    """How likely labels are, and pairs of neighbouring ones."""

    items: Floats  # probability of each label, shape [items, labels]
    pairs: Floats  # expected of items i and i + 1, [items, labels, labels]; 0 at a piece's end


def marginals(scores: Floats, pieces: Numbers, transitions: Floats) -> Marginals:
    """Returns the marginal probabilities of every item and of every pair of neighbours.

    Example:
        >>> found = marginals(np.zeros((3, 2)), np.array([0, 3]), np.zeros((2, 2)))
        >>> found.items.round(6).tolist()
        [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    """
    if not len(scores):
        return Marginals(items=scores, pairs=np.zeros((0, *transitions.shape)))
    lengths = np.diff(pieces)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = pieces[:-1][order], lengths[order]
    active = [int(np.searchsorted(-lengths, -step)) for step in range(int(lengths[0]))]
    forward, backward = scores.copy(), np.zeros_like(scores)
    for step in range(1, len(active)):
        here = starts[: active[step]] + step
        forward[here] += _log_sum(forward[here - 1][:, :, None] + transitions, axis=1)
    for step in range(len(active) - 1, 0, -1):
        here = starts[: active[step]] + step
        ahead = (scores[here] + backward[here])[:, None, :]
        backward[here - 1] = _log_sum(ahead + transitions, axis=2)
    both = forward + backward
    total = _log_sum(both, axis=1)
    pairs = np.zeros((len(scores), *transitions.shape))
    first = np.setdiff1d(np.arange(len(scores)), pieces[1:] - 1, assume_unique=True)
    ahead = (scores + backward)[first + 1][:, None, :]
    pairs[first] = np.exp(
        forward[first][:, :, None] + transitions + ahead - total[first][:, None, None]
    )
    return Marginals(items=np.exp(both - total[:, None]), pairs=pairs)


def _log_sum(values: Floats, *, axis: int) -> Floats:
    top = values.max(axis=axis, keepdims=True)
    found: Floats = np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Gradient:
    """The gradient of one record's loss, by the weights of its own rows and by transitions."""

    rows: Floats
    transitions: Floats


def gradients(
    records: Sequence[Record],
    weights: Sequence[Floats],
    transitions: Floats,
    *,
    emphasis: Floats,
) -> list[Gradient]:
    """Returns the gradient of each record's negative log-likelihood, all marginals at once.

    The residuals of items with each label are multiplied by `emphasis`; ones give the likelihood's.
    """
    scores = [item_scores(*pair) for pair in zip(records, weights, strict=True)]
    starts = np.cumsum([0, *map(len, scores)])
    pieces = [
        record.pieces[:-1] + start for record, start in zip(records, starts[:-1], strict=True)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        found = marginals(
            np.concatenate(scores), np.concatenate([*pieces, starts[-1:]]), transitions
        )
    made = []
    for record, first, stop in zip(records, starts[:-1], starts[1:], strict=True):
        residual = found.items[first:stop].copy()
        residual[np.arange(len(record.labels)), record.labels] -= 1.0
        residual *= emphasis[record.labels][:, None]
        made.append(
            Gradient(
                rows=row_gradient(record, residual),
                transitions=found.pairs[first:stop].sum(axis=0)
                - pair_counts(record, len(transitions)),
            )
        )
    return made


def pair_counts(record: Record, num_labels: int) -> Floats:
    """Returns how often each label follows each label inside a piece."""
    inside = np.ones(len(record.labels), dtype=bool)
    inside[record.pieces[1:] - 1] = False
    first = np.flatnonzero(inside)
    pairs = record.labels[first] * num_labels + record.labels[first + 1]
    counts = np.bincount(pairs, minlength=num_labels**2)
    return counts.reshape(num_labels, num_labels).astype(np.float64)
