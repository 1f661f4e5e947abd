"""Where a text that was written freely stands on a page, if it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hushdoc.metrics import answer_of, similarity

LEAST_ALIKE = 0.8
"""Normalised Levenshtein similarity from which words count as what was written."""


def most_alike(text: str, words: Sequence[str]) -> range | None:
    """Returns the run of words that is most like a text, the first of equal ones; None if none is.

    Case and width of spaces do not count.
    """
    wanted = answer_of(text)
    letters = Counter(wanted)
    best, found = LEAST_ALIKE, None
    for run, joined in _runs([answer_of(word) for word in words], len(wanted)):
        longest = max(len(joined), len(wanted))
        # No distance is less than the letters that one of both lacks.
        shared = (Counter(joined) & letters).total()
        if shared < best * longest or (found is not None and shared == best * longest):
            continue
        alike = similarity(joined, wanted)
        if alike > best or (found is None and alike == best):
            best, found = alike, run
    return found


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[range, str]]:
    """Yields runs of words that are about as long as a text, each with its own text."""
    for first in range(len(words)):
        joined = words[first]
        for stop in range(first + 1, len(words) + 1):
            if LEAST_ALIKE * len(joined) > length:
                break
            if len(joined) >= LEAST_ALIKE * length:
                yield range(first, stop), joined
            joined += f" {words[stop]}" if stop < len(words) else ""
