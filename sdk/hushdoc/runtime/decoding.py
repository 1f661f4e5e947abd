"""From a model's scores to tags: probabilities, and the best path of whole fields."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.page import Page

FloatArray = npt.NDArray[np.float64]

_TINY = 1e-300
"""Stands for a probability of zero, so that impossible paths can still be compared."""


def softmax(logits: npt.NDArray[np.floating[Any]]) -> FloatArray:
    """Returns probabilities along the last axis."""
    values = logits.astype(np.float64)
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float64)


def log_softmax(logits: npt.NDArray[np.floating[Any]]) -> FloatArray:
    """Returns the logarithms of probabilities along the last axis."""
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    return np.asarray(values - np.log(np.exp(values).sum(axis=-1, keepdims=True)), dtype=np.float64)


def joined_words(page: Page) -> npt.NDArray[np.bool_]:
    """Returns for every word whether it stands in the same segment as the word before it."""
    segments = [word.segment for word in page.words]
    before = [None, *segments][: len(segments)]
    return np.asarray(
        [here is not None and here == last for here, last in zip(segments, before, strict=True)],
        dtype=np.bool_,
    )


def viterbi(
    scores: FloatArray, joined: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.int64]:
    """Returns the most probable tags in which an I only follows a B or I of its own label.

    `scores` are probabilities of shape [words, tags], the tags ordered as in `LabelSet.tags`; a row
    of NaN carries no information. Where `joined` [words] is True, no field may begin directly after
    another of the same label: for models trained on segments, which had one field at most.
    """
    words, tags = scores.shape
    if words == 0:
        return np.zeros(0, dtype=np.int64)
    logs = np.log(np.maximum(scores, _TINY))
    unread = np.isnan(scores).any(axis=1)
    logs[unread] = 0.0
    # A word that was not read goes on with what stands before it, and opens no field of its own.
    logs[np.ix_(unread, np.arange(1, tags, 2))] = np.log(0.5)
    free, held = _transitions(tags)
    before = np.zeros((words, tags), dtype=np.int64)
    best = logs[0].copy()
    best[2::2] = -np.inf
    for word in range(1, words):
        allowed = held if joined is not None and joined[word] else free
        reached = best[:, None] + allowed
        before[word] = reached.argmax(axis=0)
        best = reached[before[word], np.arange(tags)] + logs[word]
    path = np.zeros(words, dtype=np.int64)
    path[-1] = best.argmax()
    for word in range(words - 1, 0, -1):
        path[word - 1] = before[word, path[word]]
    return path


@lru_cache(maxsize=16)
def _transitions(tags: int) -> tuple[FloatArray, FloatArray]:
    """Returns 0 or minus infinity for each step from a tag (row) to a tag (column).

    The second table also forbids a B after a B or I of its own label.
    """
    free = np.zeros((tags, tags))
    free[:, 2::2] = -np.inf
    held = free.copy()
    for start in range(1, tags, 2):
        free[[start, start + 1], start + 1] = held[[start, start + 1], start + 1] = 0.0
        held[[start, start + 1], start] = -np.inf
    return free, held
