"""Features: the rows of a table that belong to every item of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushdoc.hashing.clusters import Clusters
from hushdoc.hashing.scheme import FeatureScheme
from hushdoc.hashing.tokens import TokenHashes, chunks, hash_words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.mixing import Hashes
    from hushdoc.hashing.templates import Groups, Lengths

    Keys = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]

CHUNK_TOKENS = 1 << 15
"""Tokens whose features are made at once, so that memory does not grow with their number."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """The rows of the table that belong to each item: sorted, each once.

    Item i has the rows `indices[offsets[i] : offsets[i + 1]]`.
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

    Features never reach beyond a sentence; one without tokens is an item without features, and no
    item at the level of tokens.
    """
    import numpy as np

    require_clusters(scheme, clusters)
    make = _of_sentences if scheme.level == "sentence" else _of_tokens
    parts = [make(*part, scheme) for part in token_chunks(hash_words(sentences, scheme), clusters)]
    rows = np.concatenate([np.zeros(0, dtype=np.int32), *(rows for rows, _ in parts)])
    counts = np.concatenate([np.zeros(1, dtype=np.int64), *(counts for _, counts in parts)])
    return Features(indices=rows, offsets=np.cumsum(counts))


def require_clusters(scheme: FeatureScheme, clusters: Clusters | None) -> None:
    """Raises ValueError unless clusters are given where the scheme has some, and only there."""
    if (clusters is None) != (scheme.clusters == 0):
        raise ValueError(
            f"The scheme has {scheme.clusters} clusters, and "
            f"{'no' if clusters is None else 'some'} clusters were given. Pass its own."
        )


def token_chunks(
    tokens: TokenHashes, clusters: Clusters | None
) -> Iterator[tuple[Hashes, Groups | None, Lengths]]:
    """Yields the token hashes, clusters and lengths of some sentences after the other."""
    groups = None if clusters is None else clusters.find(tokens.hashes)
    for first, last, start, stop in chunks(tokens.lengths, CHUNK_TOKENS):
        own = None if groups is None else groups[start:stop]
        yield tokens.hashes[start:stop], own, tokens.lengths[first:last]


def sorted_keys(
    hashes: Hashes, groups: Groups | None, lengths: Lengths, scheme: FeatureScheme
) -> tuple[Keys, Keys, Lengths]:
    """Returns sorted numbers of features, each sentence's lowest number, and how many it has.

    A number is the sentence's times the rows, plus a row; one that a sentence has twice stands
    there twice, side by side.
    """
    import numpy as np

    from hushdoc.hashing import templates

    features = templates.of_sentences(scheme)
    # The largest number stands for no feature, so these are the last of all.
    narrow = len(lengths) * scheme.rows < 2**32
    dtype = np.dtype(np.uint32 if narrow else np.uint64)
    bases = np.arange(len(lengths), dtype=dtype) * dtype.type(scheme.rows)
    rows = templates.feature_rows(hashes, groups, features, scheme)
    keys = rows.astype(dtype, copy=False)
    keys[:, : len(hashes)] += np.repeat(bases, lengths)
    templates.clear_sentences(keys, features, lengths, groups)
    found = keys.reshape(-1)
    found.sort()
    counts = templates.num_features(features, lengths, groups)
    return found[: int(counts.sum())], bases, counts


def _of_sentences(
    hashes: Hashes, groups: Groups | None, lengths: Lengths, scheme: FeatureScheme
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of each sentence and how many each has."""
    import numpy as np

    found, bases, _ = sorted_keys(hashes, groups, lengths, scheme)
    new = np.ones(len(found), dtype=bool)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    found = found.take(np.flatnonzero(new))
    counts = np.diff(np.searchsorted(found, bases), append=len(found))
    found -= np.repeat(bases, counts)
    return found.astype(np.int32, copy=False), counts


def _of_tokens(
    hashes: Hashes, groups: Groups | None, lengths: Lengths, scheme: FeatureScheme
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of each token and how many each has."""
    import numpy as np

    from hushdoc.hashing import templates

    features = templates.of_tokens(scheme)
    rows = templates.feature_rows(hashes, groups, features, scheme)
    missing = templates.clear(rows, features, lengths, groups)
    # Short lists whose length is a multiple of 8 are sorted much faster than others.
    found = np.full((len(hashes), len(features) + -len(features) % 8), missing)
    found[:, : len(features)] = rows[:, : len(hashes)].T
    found.sort(axis=1)
    kept = found != missing
    kept[:, 1:] &= found[:, 1:] != found[:, :-1]
    taken = found.reshape(-1).take(np.flatnonzero(kept))
    return taken.view(np.int32), kept.sum(axis=1, dtype=np.int64)
