"""Clusters of words, which make words that were never seen in training known to a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushdoc.hashing.murmur import token_hashes
from hushdoc.hashing.scheme import FeatureScheme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.mixing import Hashes


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """The cluster of each token hash, ascending: public knowledge, never learned in private."""

    hashes: Hashes
    ids: npt.NDArray[np.uint16]

    def __post_init__(self) -> None:
        """Refuses arrays that can't be searched."""
        if self.hashes.ndim != 1 or self.hashes.shape != self.ids.shape:
            raise ValueError(
                f"Clusters have {self.hashes.shape} hashes and {self.ids.shape} numbers; expected "
                "one number for each hash."
            )
        if (self.hashes[1:] <= self.hashes[:-1]).any():
            raise ValueError("The hashes of clusters must ascend, and each be there once.")

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, int]], scheme: FeatureScheme) -> Clusters:
        """Returns clusters from (word, cluster) pairs; of words with one hash the first is kept."""
        import numpy as np

        found = list(pairs)
        for word, number in found:
            if not 0 <= number < scheme.clusters:
                raise ValueError(
                    f"The word {word!a} is in cluster {number}; the scheme has {scheme.clusters}."
                )
        numbers = np.array([number for _, number in found], dtype=np.uint16)
        hashes = token_hashes([word for word, _ in found], scheme)
        hashes, first = np.unique(hashes, return_index=True)
        return cls(hashes=hashes, ids=numbers[first])

    def find(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        """Returns the cluster of each token hash, -1 where it has none."""
        import numpy as np

        distinct, numbers = np.unique(hashes, return_inverse=True)
        _, known, places = np.intersect1d(
            distinct, self.hashes, assume_unique=True, return_indices=True
        )
        found = np.full(len(distinct), -1, dtype=np.int64)
        found[known] = self.ids[places]
        return found[numbers]
