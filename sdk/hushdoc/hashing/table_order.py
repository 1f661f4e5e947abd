"""Lookups: the same features of sentences, in the order of the table.

A table is a few megabytes, more than the cache of a core, and hashed features name rows all over
it. Read in its own order it comes in from memory several times faster than by jumping about for
one sentence after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hushdoc.hashing.clusters import Clusters
from hushdoc.hashing.murmur import CHUNK_TOKENS, sentence_hashes
from hushdoc.hashing.rows import chunks, lengths_of, require_clusters
from hushdoc.hashing.scheme import FeatureScheme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.mixing import Hashes
    from hushdoc.hashing.templates import Groups, Lengths

    Keys = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]

_BLOCK_KEYS = 1 << 15
"""Features that are looked up at once."""

_FEWEST_ITEM_BITS = 10
"""With fewer bits than these for sentences, numbers are twice as long instead."""


class Block(NamedTuple):
    """Some features of a few sentences that follow one another, ordered by row.

    The first sentence is `first`, and `items` count from it; `new` is False where the sentence has
    the row already.
    """

    first: int
    items: npt.NDArray[np.intp]
    rows: npt.NDArray[np.intp]
    new: npt.NDArray[np.bool_]


class _Run(NamedTuple):
    """Rows and, in the lower bits, neighbouring sentences, ascending; the last is no feature."""

    first: int
    keys: Keys
    item_bits: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookups:
    """Where the table is read for which sentence, in the table's order."""

    num_items: int
    runs: Sequence[_Run]

    def blocks(self) -> Iterator[Block]:
        """Yields all features, some thousands at a time."""
        import numpy as np

        for first, keys, item_bits in self.runs:
            shift = keys.dtype.type(item_bits)
            low = keys.dtype.type((1 << item_bits) - 1)
            for start in range(0, len(keys) - 1, _BLOCK_KEYS):
                block = keys[start : start + _BLOCK_KEYS + 1]
                yield Block(
                    first,
                    (block[:-1] & low).astype(np.intp),
                    (block[:-1] >> shift).astype(np.intp),
                    block[1:] != block[:-1],
                )


def lookups(
    sentences: Sequence[Sequence[str]], scheme: FeatureScheme, clusters: Clusters | None = None
) -> Lookups:
    """Returns the features of every sentence in the order of the table."""
    if scheme.level != "sentence":
        raise ValueError(f"The scheme is for {scheme.level}s; lookups are for sentences.")
    require_clusters(scheme, clusters)
    lengths = lengths_of(sentences)
    item_bits = 32 - (scheme.rows - 1).bit_length()
    item_bits = 32 if item_bits < _FEWEST_ITEM_BITS else item_bits
    runs = []
    # The largest number stands for no feature, so the last sentence may not have all bits set.
    for first, last, start, stop in chunks(lengths, CHUNK_TOKENS, (1 << item_bits) - 1):
        hashes = sentence_hashes(sentences[first:last], stop - start, scheme)
        groups = None if clusters is None else clusters.find(hashes)
        keys = _sorted_keys(hashes, groups, lengths[first:last], scheme, item_bits)
        runs.append(_Run(first, keys, item_bits))
    return Lookups(num_items=len(lengths), runs=tuple(runs))


def _sorted_keys(
    hashes: Hashes,
    groups: Groups | None,
    lengths: Lengths,
    scheme: FeatureScheme,
    item_bits: int,
) -> Keys:
    """Returns the keys of all features of some sentences, and one that is none."""
    import numpy as np

    from hushdoc.hashing import templates

    features = templates.of_sentences(scheme)
    dtype = np.dtype(np.uint64 if item_bits == 32 else np.uint32)
    keys = np.empty((len(features), len(hashes) + templates.MARGIN), dtype=dtype)
    rows = keys if dtype == np.uint32 else np.empty(keys.shape, dtype=np.uint32)
    items = np.repeat(np.arange(len(lengths), dtype=dtype), lengths)
    for line, own in zip(
        templates.write_hashes(rows, hashes, groups, features, scheme), keys, strict=True
    ):
        templates.rows_of(line, scheme)
        # Without dtype, numpy 1 would shift in the 32 bits of the line.
        np.left_shift(line, dtype.type(item_bits), out=own, dtype=dtype)
        own[: len(hashes)] |= items
    missing = templates.clear(keys, features, lengths, groups)
    found = keys.reshape(-1)
    found.sort()
    return found[: int(np.searchsorted(found, missing)) + 1]
