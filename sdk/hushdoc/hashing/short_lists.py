"""The rows of every sentence, sorted sentence by sentence.

Numpy sorts many short lists of one length in a fraction of the time of a long one. So sentences are
filled up to a few lengths, and those of one length are sorted in one call.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from hushdoc.hashing import templates
from hushdoc.hashing.mixing import Hashes, Places
from hushdoc.hashing.scheme import FeatureScheme
from hushdoc.hashing.templates import Groups, Lengths

MISSING = np.uint32(0xFFFFFFFF)
"""Stands where there is no row."""

_SHORTEST = 8
"""Rows of the shortest lists; longer ones have 5, 6, 7, 8, 10, 12, ... fourths as many."""


def sorted_rows(
    hashes: Hashes, groups: Groups | None, lengths: Lengths, scheme: FeatureScheme
) -> tuple[Hashes, Places, Places]:
    """Returns sorted rows, where each sentence's start, and the sentences in this order.

    Those of a sentence end with as many MISSING as its list was filled up with.
    """
    features = templates.of_sentences(scheme)
    sizes = _sizes(int(lengths.max(initial=0)).bit_length(), len(features))
    classes = sizes.searchsorted(lengths).astype(np.uint8)
    items = classes.argsort(kind="stable")
    counts = np.bincount(classes, minlength=len(sizes))
    spans = np.repeat(sizes, counts)
    starts = spans.cumsum() - spans
    ends = lengths.cumsum()
    tokens = np.arange(spans.sum())
    tokens += np.repeat((ends - lengths).take(items) - starts, spans)
    own = None if groups is None else groups.take(tokens, mode="clip")
    lines = templates.feature_rows(hashes.take(tokens, mode="clip"), own, features, scheme)
    missing = np.empty_like(lines[0])
    np.multiply(tokens >= np.repeat(ends.take(items), spans), MISSING, out=missing[: len(tokens)])
    reach = 0
    for line, template in zip(lines, features, strict=True):
        for place in range(reach, -template.first):  # where no pair so far apart ends
            missing[starts + place] = MISSING
        reach = -template.first
        line |= missing
        if template.of_clusters and own is not None:
            line[: len(tokens)][own < 0] = MISSING
    lines = lines[:, : len(tokens)]
    rows = np.empty(lines.size, dtype=np.uint32)
    done = 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        stop = done + size * count
        if stop > done:
            part = rows[done * len(features) : stop * len(features)].reshape(count, -1)
            shaped = part.reshape(count, len(features), size)
            shaped[:] = lines[:, done:stop].reshape(-1, count, size).transpose(1, 0, 2)
            part.sort(axis=1)
        done = stop
    return rows, starts * len(features), items


@cache
def _sizes(bits: int, num_features: int) -> Lengths:
    """Returns the tokens that sentences shorter than 2**bits are filled up to, none first."""
    sizes, rows = [0], _SHORTEST
    while sizes[-1] < 1 << bits:
        sizes += [rows * quarters // 4 // num_features for quarters in range(4, 8)]
        rows *= 2
    return np.array(sizes)
