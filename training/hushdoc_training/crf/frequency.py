"""Frequency: features that few documents have are dropped before their rows can collide.

Counted by rows of the table, a feature of one document alone looks frequent as soon as others share
its row, which in a table that is nearly full is the rule: it would be learned from after all. So
features are counted by 31 bits of their hashes, where hardly any two are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.hashing import MAX_ROWS, Clusters, Features, FeatureScheme

Numbers = npt.NDArray[np.int64]


def frequent(
    sentences: Sequence[Sequence[str]],
    scheme: FeatureScheme,
    records: Numbers,  # where each begins, in items, and the number of items at the end
    *,
    least_records: int,
    clusters: Clusters | None = None,
) -> Features:
    """Returns the features of items without those that fewer than `least_records` records have.

    Where the rows of two features of one item are the same, the row stays if either is frequent.

    Example:
        >>> scheme = FeatureScheme(rows=1000, bigrams=False, skip_grams=False)
        >>> found = frequent([["a", "b"], ["a", "c"]], scheme, np.array([0, 1, 2]), least_records=2)
        >>> found.offsets.tolist()
        [0, 1, 2]
    """
    found = hashing.features(sentences, scheme, clusters)
    fine = hashing.features(sentences, replace(scheme, rows=MAX_ROWS), clusters)
    often = _often(fine, records, least_records)
    owners = _owners(fine)[often] * scheme.rows
    wanted = [owners + rows for rows in _coarse(fine.indices[often], scheme.rows)]
    stays = np.isin(_owners(found) * scheme.rows + found.indices, np.concatenate(wanted))
    counts = np.bincount(_owners(found)[stays], minlength=found.num_items)
    return Features(indices=found.indices[stays], offsets=np.concatenate([[0], np.cumsum(counts)]))


def _owners(features: Features) -> Numbers:
    return np.repeat(np.arange(features.num_items), np.diff(features.offsets))


def _often(fine: Features, records: Numbers, least: int) -> npt.NDArray[np.bool_]:
    """Returns for each feature of each item whether enough records have it."""
    record = np.repeat(np.arange(len(records) - 1), np.diff(fine.offsets[records]))
    pairs = np.unique(record * MAX_ROWS + fine.indices)
    features, counts = np.unique(pairs % MAX_ROWS, return_counts=True)
    often: npt.NDArray[np.bool_] = np.isin(fine.indices, features[counts >= least])
    return often


def _coarse(fine: npt.NDArray[np.int32], rows: int) -> list[Numbers]:
    """Returns the rows in a smaller table that the hash of a fine row may belong to.

    A fine row is h (2**31 - 1) / 2**32 rounded down, so h is one of 2 f + {0, 1, 2, 3}: nearly
    always in one coarse row, else in two neighbouring ones.
    """
    first = 2 * fine.astype(np.int64)
    return [np.minimum((first + more) * rows >> 32, rows - 1) for more in (0, 3)]
