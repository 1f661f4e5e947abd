"""Windows over long pages: split between words, and merge what the model said of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hushdoc.runtime.encoding import EncodedPage

FloatArray = npt.NDArray[np.float32]


def split(page: EncodedPage, *, capacity: int, overlap: int) -> list[tuple[int, int]]:
    """Returns token ranges that cover the whole page and never cut a word.

    Args:
        page: The page's tokens.
        capacity: Most tokens in one range.
        overlap: Tokens that neighbouring ranges share, at most (a word is never cut).
    """
    total = len(page.ids)
    starts = np.flatnonzero(page.first)
    ranges: list[tuple[int, int]] = []
    start = 0
    while start < total:
        if total - start <= capacity:
            ranges.append((start, total))
            break
        # The last word start that fits closes this window.
        stop = int(starts[np.searchsorted(starts, start + capacity, side="right") - 1])
        ranges.append((start, stop))
        back = int(starts[np.searchsorted(starts, stop - overlap, side="left")])
        start = back if back > start else stop
    return ranges


def merge(
    page: EncodedPage, ranges: Sequence[tuple[int, int]], outputs: Sequence[FloatArray]
) -> FloatArray:
    """Returns one row of scores for each word, from the window that saw most around it.

    Args:
        page: The page's tokens.
        ranges: The token ranges that `split` gave.
        outputs: For each range the model's scores, shape [tokens in range, labels].

    Returns:
        Shape [words, labels]; rows of words without any token are NaN.
    """
    labels = outputs[0].shape[1] if outputs else 0
    merged = np.full((page.num_words, labels), np.nan, dtype=np.float32)
    seen = np.full(page.num_words, -1, dtype=np.int64)
    for (start, stop), scores in zip(ranges, outputs, strict=True):
        for token in np.flatnonzero(page.first[start:stop]):
            word = page.words[start + token]
            # A page's own edge is no loss of context.
            left = token if start > 0 else stop - start
            right = stop - start - token if stop < len(page.ids) else stop - start
            context = min(left, right)
            if context > seen[word]:
                seen[word] = context
                merged[word] = scores[token]
    return merged
