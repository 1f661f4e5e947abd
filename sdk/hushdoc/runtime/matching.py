"""Where a text that was written freely stands on a page, if it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hushdoc.metrics import answer_of

LEAST_ALIKE = 0.8
"""Normalised Levenshtein similarity from which words count as what was written."""

_BITS = 64
_AT_ONCE = 1 << 13
"""Words of a page from which runs are followed at once."""

_Row = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]


def most_alike(text: str, words: Sequence[str]) -> range | None:
    """Returns the run of words that is most like a text, the first of equal ones; None if none is.

    Case and width of spaces do not count.
    """
    wanted = answer_of(text)
    if not wanted:
        return None
    page = [answer_of(word) for word in words]
    lengths = np.array([len(word) for word in page], dtype=np.int64)
    ends = np.cumsum(lengths + 1) - 1
    joined = _codes(" ".join(page))
    # At each place of the page the number of the word that ends before it, or -1.
    word_at = np.full(len(joined) + 1, -1)
    word_at[ends] = np.arange(len(page))
    best, found = LEAST_ALIKE, None
    for first in range(0, len(page), _AT_ONCE):
        starts = (ends - lengths)[first : first + _AT_ONCE]
        alike, last = _most_alike(_codes(wanted), joined, starts, word_at)
        row = int(np.argmax(alike))
        if alike[row] > best or (found is None and alike[row] == best):
            best, found = float(alike[row]), range(first + row, int(last[row]) + 1)
    return found


def _most_alike(
    wanted: _Numbers, joined: _Numbers, starts: _Numbers, word_at: _Numbers
) -> tuple[npt.NDArray[np.float64], _Numbers]:
    """Returns for each start how alike its best run is, and the run's last word."""
    alike, last = np.zeros(len(starts)), np.full(len(starts), -1)
    for length, distances in enumerate(_distances(wanted, joined, starts), start=1):
        if LEAST_ALIKE * length > len(wanted):
            break
        if length < LEAST_ALIKE * len(wanted):
            continue
        ending = word_at[np.minimum(starts + length, len(joined))]
        inside = starts + length <= len(joined)
        found = 1 - distances / max(length, len(wanted))
        better = inside & (ending >= 0) & (found > alike)
        alike, last = np.where(better, found, alike), np.where(better, ending, last)
    return alike, last


def _distances(wanted: _Numbers, joined: _Numbers, starts: _Numbers) -> Iterator[_Numbers]:
    """Yields how far the next 1, 2, ... letters from each start are from a text (Levenshtein).

    The bits of `more` and `less` say where a column is one more, and one less, than at the place
    before, of 64 places a block (Myers 1999); an end is followed beyond the page's.
    """
    letters, numbers = np.unique(wanted, return_inverse=True)
    blocks = -(-len(wanted) // _BITS)
    places = np.zeros((blocks, len(letters) + 1), dtype=np.uint64)
    for place, number in enumerate(numbers):
        places[place // _BITS, number] |= np.uint64(1 << place % _BITS)
    codes = np.searchsorted(letters, joined)
    codes[letters[np.minimum(codes, len(letters) - 1)] != joined] = len(letters)
    one, top = np.uint64(1), np.uint64(_BITS - 1)
    last = np.uint64((len(wanted) - 1) % _BITS)
    more = np.full((blocks, len(starts)), ~np.uint64(0))
    less = np.zeros((blocks, len(starts)), dtype=np.uint64)
    distances = np.full(len(starts), len(wanted))
    for length in range(len(joined)):
        letter = codes[np.minimum(starts + length, len(joined) - 1)]
        grown_in: _Row = np.ones(len(starts), dtype=np.uint64)
        shrunk_in: _Row = np.zeros(len(starts), dtype=np.uint64)
        for block in range(blocks):
            here, before = more[block], less[block]
            equal = places[block, letter]
            across = equal | before
            equal = equal | shrunk_in
            kept = (((equal & here) + here) ^ here) | equal
            grown, shrunk = before | ~(kept | here), kept & here
            if block == blocks - 1:
                change = (grown >> last & one).astype(np.int64)
                distances = distances + change - (shrunk >> last & one).astype(np.int64)
            grown_out, shrunk_out = grown >> top, shrunk >> top
            grown, shrunk = grown << one | grown_in, shrunk << one | shrunk_in
            more[block], less[block] = shrunk | ~(across | grown), grown & across
            grown_in, shrunk_in = grown_out, shrunk_out
        yield distances


def _codes(text: str) -> _Numbers:
    """Returns the numbers of a text's letters."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
