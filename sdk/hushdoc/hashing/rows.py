"""Features: the rows of a table that belong to every item of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hushdoc.hashing.clusters import Clusters
from hushdoc.hashing.murmur import CHUNK_TOKENS, finalize, sentence_hashes
from hushdoc.hashing.scheme import MAX_SKIPPED, MAX_WINDOW, FeatureScheme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.murmur import Hashes

_CHUNK_TOKENS = {"sentence": 1 << 14, "token": 1 << 13}
"""Tokens whose features are made at once: their arrays stay in the cache of one core."""

# What the tokens of a feature are to each other. Offsets (0 is the item itself, -1 the token
# before it) are added in 8 bits; pairs are told apart by the side on which the item stands.
_TOKEN, _CLUSTER, _BIGRAM, _SKIP_GRAM = 0x100, 0x200, 0x300, 0x400
_ITEM_IS_SECOND = 1

_MARGIN = max(MAX_WINDOW, MAX_SKIPPED + 1)
"""Tokens between an item and the furthest token of its features, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """The rows of the table that belong to each item: sorted, each once.

    Attributes:
        indices: The rows of all items, one item after the other.
        offsets: Item i has the rows `indices[offsets[i] : offsets[i + 1]]`; one entry more than
            there are items.
    """

    indices: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return len(self.offsets) - 1

    def rows_of(self, item: int) -> npt.NDArray[np.int32]:
        """Returns the rows of one item."""
        return self.indices[self.offsets[item] : self.offsets[item + 1]]


def features(
    sentences: Sequence[Sequence[str]], scheme: FeatureScheme, clusters: Clusters | None = None
) -> Features:
    """Returns the features of every sentence, or of every token, in order.

    Args:
        sentences: The tokens of each. Features never reach beyond a sentence; one without tokens
            is an item without features, and no item at the level of tokens.
        scheme: What the features are.
        clusters: What the scheme's clusters are; needed where it has some.

    Raises:
        ValueError: Clusters are missing, or given to a scheme that has none.

    Example:
        >>> found = features([["Governing", "law"], []], FeatureScheme(rows=1000))
        >>> found.offsets.tolist()
        [0, 3, 3]
    """
    import numpy as np

    if (clusters is None) != (scheme.clusters == 0):
        raise ValueError(
            f"The scheme has {scheme.clusters} clusters, and "
            f"{'no' if clusters is None else 'some'} clusters were given. Pass its own."
        )
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    read = [
        sentence_hashes(sentences[first:last], stop - start, scheme)
        for first, last, start, stop in _chunks(lengths, CHUNK_TOKENS)
    ]
    hashes = read[0] if len(read) == 1 else np.concatenate([np.zeros(0, dtype=np.uint32), *read])
    groups = None if clusters is None else clusters.find(hashes)
    make = _of_sentences if scheme.level == "sentence" else _of_tokens
    parts = []
    for first, last, start, stop in _chunks(lengths, _CHUNK_TOKENS[scheme.level]):
        clustered = None if groups is None else groups[start:stop]
        parts.append(make(hashes[start:stop], clustered, lengths[first:last], scheme))
    rows = np.concatenate([np.zeros(0, dtype=np.int32), *(rows for rows, _ in parts)])
    counts = np.concatenate([np.zeros(1, dtype=np.int64), *(counts for _, counts in parts)])
    return Features(indices=rows, offsets=np.cumsum(counts))


def _chunks(lengths: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields runs of whole sentences: the first, one past the last, and the same of tokens.

    A run has at most so many tokens, or one sentence.
    """
    import numpy as np

    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    first = 0
    while first < len(lengths):
        reach = np.searchsorted(ends, ends[first] + most, side="right") - 1
        last = min(len(lengths), max(first + 1, int(reach)))
        yield first, last, int(ends[first]), int(ends[last])
        first = last


class _Kind(NamedTuple):
    """A kind of feature: which tokens it is made of, by their distance from the item's token."""

    number: int
    first: int
    second: int | None = None
    of_clusters: bool = False


def _of_sentences(
    hashes: Hashes,
    groups: npt.NDArray[np.int64] | None,
    lengths: npt.NDArray[np.int64],
    scheme: FeatureScheme,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of each sentence and how many each has."""
    import numpy as np

    kinds = [_Kind(_TOKEN, 0), *([_Kind(_CLUSTER, 0, None, True)] if scheme.clusters else [])]
    kinds += [_Kind(number, -distance, 0) for distance, number in _pairs(scheme)]
    # A sentence's number times the rows, plus a row, is a number that sorts by both. The largest
    # number stands for no feature; there are always some, so they are the last of all.
    narrow = len(lengths) * scheme.rows < 2**32
    dtype = np.dtype(np.uint32 if narrow else np.uint64)
    bases = np.arange(len(lengths), dtype=dtype) * dtype.type(scheme.rows)
    keys = _rows(_mixed(hashes, groups, kinds, scheme), scheme).astype(dtype, copy=False)
    keys[:, : len(hashes)] += np.repeat(bases, lengths)
    _clear(keys, kinds, lengths, groups)
    found = keys.reshape(-1)
    found.sort()
    found = found.take(np.flatnonzero(found[1:] != found[:-1]))
    counts = np.diff(np.searchsorted(found, bases), append=len(found))
    found -= np.repeat(bases, counts)
    return found.astype(np.int32, copy=False), counts


def _of_tokens(
    hashes: Hashes,
    groups: npt.NDArray[np.int64] | None,
    lengths: npt.NDArray[np.int64],
    scheme: FeatureScheme,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of each token and how many each has."""
    import numpy as np

    kinds = []
    for offset in range(-scheme.window, scheme.window + 1):
        kinds += [_Kind(_TOKEN | offset & 0xFF, offset)]
        kinds += [_Kind(_CLUSTER | offset & 0xFF, offset, None, True)] if scheme.clusters else []
    for distance, number in _pairs(scheme):
        kinds += [_Kind(number, 0, distance), _Kind(number | _ITEM_IS_SECOND, -distance, 0)]
    rows = _rows(_mixed(hashes, groups, kinds, scheme), scheme)
    missing = _clear(rows, kinds, lengths, groups)
    # Short lists whose length is a multiple of 8 are sorted much faster than others.
    found = np.full((len(hashes), len(kinds) + -len(kinds) % 8), missing)
    found[:, : len(kinds)] = rows[:, : len(hashes)].T
    found.sort(axis=1)
    kept = found != missing
    kept[:, 1:] &= found[:, 1:] != found[:, :-1]
    taken = found.reshape(-1).take(np.flatnonzero(kept))
    return taken.view(np.int32), kept.sum(axis=1, dtype=np.int64)


def _pairs(scheme: FeatureScheme) -> list[tuple[int, int]]:
    """Returns the distance and kind of each pair of tokens that is a feature."""
    pairs = [(1, _BIGRAM)] if scheme.bigrams else []
    if scheme.skip_grams:
        pairs += [(distance, _SKIP_GRAM) for distance in range(2, MAX_SKIPPED + 2)]
    return pairs


def _mixed(
    hashes: Hashes,
    groups: npt.NDArray[np.int64] | None,
    kinds: Sequence[_Kind],
    scheme: FeatureScheme,
) -> Hashes:
    """Returns features before MurmurHash3's finalizer: a line for each kind, a column for a token.

    There are _MARGIN columns more than tokens. What stands in those, and where a token has no
    feature of the kind, means nothing.
    """
    import numpy as np

    total = len(hashes)
    mixed = np.zeros((len(kinds), total + _MARGIN), dtype=np.uint32)
    firsts = hashes * np.uint32(0x9E3779B1)
    clusters = None if groups is None else groups.astype(np.uint32) * np.uint32(0x9E3779B1)
    seconds = hashes * np.uint32(0x85EBCA77)
    seconds = (seconds << np.uint32(15)) | (seconds >> np.uint32(17))
    for line, kind in zip(mixed, kinds, strict=True):
        constant = np.uint32((kind.number * 0xC2B2AE3D + scheme.seed) & 0xFFFFFFFF)
        if kind.second is None:
            here, there = _shifted(total, kind.first)
            source = clusters if kind.of_clusters and clusters is not None else firsts
            np.bitwise_xor(source[there], constant, out=line[here])
            continue
        # One of the two is the item's own token.
        first, second = _shifted(total, kind.second - kind.first)
        out = line[second if kind.second == 0 else first]
        np.add(seconds[second], constant, out=out)
        out ^= firsts[first]
    return mixed


def _clear(
    rows: npt.NDArray[Any],
    kinds: Sequence[_Kind],
    lengths: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64] | None,
) -> Any:
    """Writes the largest number where a token has no feature of a kind, and returns it."""
    import numpy as np

    missing = rows.dtype.type(np.iinfo(rows.dtype).max)
    total = rows.shape[1] - _MARGIN
    rows[:, total:] = missing
    stops = np.cumsum(lengths)
    # Where a sentence has fewer tokens, its neighbours' are reached: those of them that are as near
    # to the same end, or columns of the margin.
    firsts = stops - lengths + np.arange(_MARGIN)[:, None]
    lasts = stops - 1 - np.arange(_MARGIN)[:, None]
    for line, kind in zip(rows, kinds, strict=True):
        reached = (0, kind.first, kind.second or 0)
        line[firsts[: -min(reached)]] = missing
        line[lasts[: max(reached)]] = missing
        if kind.of_clusters and groups is not None:
            here, there = _shifted(total, kind.first)
            line[here][groups[there] < 0] = missing
    return missing


def _shifted(total: int, offset: int) -> tuple[slice, slice]:
    """Returns the items that have a token at an offset, and those tokens."""
    reach = max(0, total - abs(offset))
    start = max(0, -offset)
    return slice(start, start + reach), slice(start + offset, start + offset + reach)


def _rows(mixed: Hashes, scheme: FeatureScheme) -> Hashes:
    """Returns the row of each feature: its share of the 32 bits, so rows may be any number."""
    import numpy as np

    finalize(mixed)
    if scheme.rows & (scheme.rows - 1) == 0:
        mixed >>= np.uint32(33 - scheme.rows.bit_length())
        return mixed
    return (mixed.astype(np.uint64) * np.uint64(scheme.rows) >> np.uint64(32)).astype(np.uint32)
