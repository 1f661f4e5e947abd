"""From a model's scores to tags: probabilities, and the best path that spells whole fields."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_TINY = 1e-300
"""Stands for a probability of zero, so that impossible paths can still be compared."""


def softmax(logits: npt.NDArray[np.float32]) -> FloatArray:
    """Returns probabilities along the last axis."""
    values = logits.astype(np.float64)
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float64)


def viterbi(scores: FloatArray) -> npt.NDArray[np.int64]:
    """Returns the most probable tags in which an I only follows a B or I of its own label.

    Tags are ordered as in `LabelSet.tags`: O, then B and I of each label.

    Args:
        scores: Probabilities, shape [words, tags]; a row of NaN says nothing about its word.

    Returns:
        One tag for each word, shape [words].
    """
    words, tags = scores.shape
    if words == 0:
        return np.zeros(0, dtype=np.int64)
    starts, insides = np.arange(1, tags, 2), np.arange(2, tags, 2)
    logs = np.log(np.maximum(scores, _TINY))
    unread = np.isnan(scores).any(axis=1)
    logs[unread] = 0.0
    # A word that was not read goes on with what stands before it, and never opens a field.
    logs[np.ix_(unread, starts)] = np.log(0.5)
    before = np.zeros((words, tags), dtype=np.int64)
    best = logs[0].copy()
    best[insides] = -np.inf
    for word in range(1, words):
        before[word] = best.argmax()
        before[word, insides] = np.where(best[insides] > best[starts], insides, starts)
        best = best[before[word]] + logs[word]
    path = np.zeros(words, dtype=np.int64)
    path[-1] = best.argmax()
    for word in range(words - 1, 0, -1):
        path[word - 1] = before[word, path[word]]
    return path
