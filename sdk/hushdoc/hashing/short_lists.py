"""The rows of every sentence, sorted sentence by sentence.

Numpy sorts many short lists of one length in a fraction of the time of a long one. So sentences are
filled up to a few lengths, and those of one length are sorted in one call.
"""

from __future__ import annotations

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
    sizes = _sizes(int(lengths.max(initial=0)), len(features))
    classes = np.searchsorted(sizes, lengths)
    items = classes.argsort(kind="stable")
    counts = np.bincount(classes, minlength=len(sizes))
    spans = np.repeat(sizes, counts)
    stops = spans.cumsum()
    places = np.arange(spans.sum()) - np.repeat(stops - spans, spans)
    tokens = places + np.repeat((lengths.cumsum() - lengths).take(items), spans)
    places[places >= np.repeat(lengths.take(items), spans)] = -1  # beyond the sentence's own
    lines = np.empty((len(features), len(tokens) + templates.MARGIN), dtype=np.uint32)
    groups = None if groups is None else groups.take(tokens, mode="clip")
    templates.write_rows(lines, hashes.take(tokens, mode="clip"), groups, features, scheme)
    lines = lines[:, : len(tokens)]
    for line, template in zip(lines, features, strict=True):
        line |= (places < -template.first) * MISSING
        if template.of_clusters and groups is not None:
            line[groups < 0] = MISSING
    rows = np.empty(lines.size, dtype=np.uint32)
    done = 0
    for size, count in zip(sizes, counts.tolist(), strict=True):
        stop = done + size * count
        if stop > done:
            part = rows[done * len(features) : stop * len(features)].reshape(count, -1)
            shaped = part.reshape(count, len(features), size)
            shaped[:] = lines[:, done:stop].reshape(-1, count, size).transpose(1, 0, 2)
            part.sort(axis=1)
        done = stop
    return rows, (stops - spans) * len(features), items


def _sizes(longest: int, num_features: int) -> list[int]:
    """Returns the tokens that sentences are filled up to, none first."""
    sizes, rows = [0], _SHORTEST
    while sizes[-1] < longest:
        sizes += [rows * quarters // 4 // num_features for quarters in range(4, 8)]
        rows *= 2
    return sizes
