"""Feature hashing of words: the one language in which tables of weights are trained and read.

Contract: an artifact's table is addressed by what stands here, so nothing of it may change without
another `FeatureScheme.version`. A token is hashed by MurmurHash3 (x86, 32 bits) of its UTF-8. The
hash of a feature is

    finalizer(first * 0x9E3779B1 ^ rotl(second * 0x85EBCA77, 15) + kind * 0xC2B2AE3D + seed)

in 32 bits, where `first` and `second` are hashes of tokens (or a cluster's number and 0), `kind`
says what they are to each other, and the finalizer is MurmurHash3's. Its row is that hash times the
number of rows, divided by 2**32. The sum is taken before the exclusive or.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hushdoc.errors import ArtifactError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint32]

LEVELS = ("sentence", "token")
VERSION = 1

MAX_SKIPPED = 4
"""Tokens between the two of a skip-gram: 4-skip-2-grams, of which 0 skipped is the bigram."""

MAX_WINDOW = 8
MAX_ROWS = 2**31 - 1
MAX_CLUSTERS = 2**16

_CHUNK_TOKENS = 1 << 14
"""Tokens whose features are made at once: their arrays stay in the cache of one core."""

# What the tokens of a feature are to each other. Offsets (0 is the item itself, -1 the token
# before it) are added in 8 bits; pairs are told apart by the side on which the item stands.
_TOKEN, _CLUSTER, _BIGRAM, _SKIP_GRAM = 0x100, 0x200, 0x300, 0x400
_ITEM_IS_SECOND = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureScheme:
    """What the features of an item are and where they stand in the table.

    At the level of sentences an item is a sentence; its features are its tokens, their clusters and
    its pairs of tokens. At the level of tokens an item is a token; its features are the tokens (and
    clusters) around it with their offsets, and the pairs it is one of.

    Attributes:
        rows: Rows of the table, at least 2; any number, not only powers of two.
        level: "sentence" or "token".
        bigrams: Whether neighbouring tokens make a feature.
        skip_grams: Whether pairs with 1 to 4 tokens between them do, whatever their distance.
        clusters: How many clusters of words there are; 0 for none.
        lowercase: Whether tokens are lowered before they are hashed.
        window: Level of tokens only: how many tokens on each side are features.
        seed: Of the token hashes and of all features, 32 bits.
        version: Of the contract in this module.
    """

    rows: int = 2**21
    level: str = "sentence"
    bigrams: bool = True
    skip_grams: bool = True
    clusters: int = 0
    lowercase: bool = True
    window: int = 2
    seed: int = 0
    version: int = VERSION

    def __post_init__(self) -> None:
        """Refuses what no table can be addressed by."""
        for name, lowest, highest in (
            ("rows", 2, MAX_ROWS),
            ("clusters", 0, MAX_CLUSTERS),
            ("window", 0, MAX_WINDOW),
            ("seed", 0, 2**32 - 1),
            ("version", VERSION, VERSION),
        ):
            value = getattr(self, name)
            if type(value) is not int or not lowest <= value <= highest:
                raise ValueError(
                    f"{name} is {value!r}; expected a whole number from {lowest} to {highest}."
                )
        if self.level not in LEVELS:
            raise ValueError(f"level is {self.level!r}; expected one of {', '.join(LEVELS)}.")
        for name in ("bigrams", "skip_grams", "lowercase"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected True or False.")

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureScheme:
        """Returns the scheme that a manifest holds.

        Raises:
            ArtifactError: A key is unknown, missing or of the wrong type.
        """
        try:
            if set(data) != set(cls.__slots__):
                raise KeyError(", ".join(sorted(set(data) ^ set(cls.__slots__))))
            return cls(**data)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"The scheme of hashed features can't be read: {type(error).__name__}: {error}. "
                "Export the artifact again with this version of hushdoc.",
                code="BAD_MANIFEST",
            ) from error


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Which cluster a word belongs to; public knowledge about a language, never learned in private.

    Attributes:
        hashes: Token hashes, ascending, each once.
        ids: The cluster of each.
    """

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
        """Returns clusters of words, hashed as the scheme hashes tokens.

        Args:
            pairs: Words and the cluster of each. Where two words have one hash, the first holds.
            scheme: Says how many clusters there are.

        Raises:
            ValueError: A cluster's number is not below the scheme's.
        """
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

        places = np.searchsorted(self.hashes, hashes)
        known = np.isin(hashes, self.hashes)
        found = np.full(len(hashes), -1, dtype=np.int64)
        found[known] = self.ids[places[known]]
        return found


def token_hashes(tokens: Sequence[str], scheme: FeatureScheme) -> Hashes:
    """Returns the hash of each token; a token that comes twice is hashed once.

    Lone surrogates, which no UTF-8 has, are spelled as if they were characters.

    Example:
        >>> [int(value) for value in token_hashes(["hello", "Hello"], FeatureScheme(seed=0))]
        [613153351, 613153351]
    """
    distinct, numbers = _distinct(tokens, len(tokens))
    return _hash_each(distinct, scheme)[numbers]


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
    distinct, numbers = _distinct(itertools.chain.from_iterable(sentences), int(lengths.sum()))
    hashes = _hash_each(distinct, scheme)
    groups = None if clusters is None else clusters.find(hashes)
    make = _of_sentences if scheme.level == "sentence" else _of_tokens
    parts = []
    for first, last, start, stop in _chunks(lengths):
        chosen = numbers[start:stop]
        clustered = None if groups is None else groups[chosen]
        parts.append(make(hashes[chosen], clustered, lengths[first:last], scheme))
    rows = np.concatenate([np.zeros(0, dtype=np.int32), *(rows for rows, _ in parts)])
    counts = np.concatenate([np.zeros(1, dtype=np.int64), *(counts for _, counts in parts)])
    return Features(indices=rows, offsets=np.cumsum(counts))


def _distinct(tokens: Iterable[str], count: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Returns each token once, and for every token its number among those."""
    import numpy as np

    number_of: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    numbers = np.fromiter(map(number_of.__getitem__, tokens), dtype=np.intp, count=count)
    return list(number_of), numbers


def _hash_each(tokens: Sequence[str], scheme: FeatureScheme) -> Hashes:
    import mmh3
    import numpy as np

    spelled = map(str.lower, tokens) if scheme.lowercase else tokens
    # Never a string: mmh3 takes down the whole process at a lone surrogate.
    encoded = [token.encode("utf-8", "surrogatepass") for token in spelled]
    options = itertools.repeat(scheme.seed), itertools.repeat(False)
    return np.fromiter(map(mmh3.hash, encoded, *options), dtype=np.uint32, count=len(tokens))


def _chunks(lengths: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    """Yields runs of whole sentences: the first, one past the last, and the same of tokens."""
    import numpy as np

    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    first = 0
    while first < len(lengths):
        reach = np.searchsorted(ends, ends[first] + _CHUNK_TOKENS, side="right") - 1
        last = min(len(lengths), max(first + 1, int(reach)))
        yield first, last, int(ends[first]), int(ends[last])
        first = last


def _of_sentences(
    hashes: Hashes,
    groups: npt.NDArray[np.int64] | None,
    lengths: npt.NDArray[np.int64],
    scheme: FeatureScheme,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of each sentence and how many each has."""
    import numpy as np

    # A sentence's number times the rows, plus a row, is a number that sorts by both.
    wide = len(lengths) * scheme.rows > 2**32
    bases = np.arange(len(lengths), dtype=np.uint64) * np.uint64(scheme.rows)
    bases = bases if wide else bases.astype(np.uint32)
    sentence = np.repeat(bases, lengths)
    single = sentence + _row(_mix(hashes, None, _TOKEN, scheme), scheme)
    keys = [single]
    if groups is not None:
        known = groups >= 0
        rows = _row(_mix(groups[known].astype(np.uint32), None, _CLUSTER, scheme), scheme)
        keys.append(sentence[known] + rows)
    for distance, kind in _pairs(scheme):
        rows = _row(_mix(hashes[:-distance], hashes[distance:], kind, scheme), scheme)
        inside = sentence[distance:] == sentence[:-distance]
        # A pair that leaves its sentence stands for a feature that is there anyway.
        keys.append(np.where(inside, sentence[distance:] + rows, single[distance:]))
    found = np.sort(np.concatenate(keys))
    found = found[np.concatenate([np.ones(1, dtype=bool), found[1:] != found[:-1]])[: len(found)]]
    counts = np.diff(np.searchsorted(found, bases), append=len(found))
    return (found - np.repeat(bases, counts)).astype(np.int32), counts


def _of_tokens(
    hashes: Hashes,
    groups: npt.NDArray[np.int64] | None,
    lengths: npt.NDArray[np.int64],
    scheme: FeatureScheme,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of each token and how many each has."""
    import numpy as np

    total = len(hashes)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    missing = np.uint32(2**32 - 1)
    width = (2 * scheme.window + 1) * (1 if groups is None else 2) + 2 * len(_pairs(scheme))
    table = np.full((width, total), missing)
    lines = iter(table)
    for offset in range(-scheme.window, scheme.window + 1):
        here, there = _shifted(total, offset)
        inside = sentence[here] == sentence[there]
        kind = _TOKEN | offset & 0xFF
        rows = _row(_mix(hashes[there], None, kind, scheme), scheme)
        next(lines)[here] = np.where(inside, rows, missing)
        if groups is not None:
            rows = _row(_mix(groups[there].astype(np.uint32), None, kind + 0x100, scheme), scheme)
            next(lines)[here] = np.where(inside & (groups[there] >= 0), rows, missing)
    for distance, kind in _pairs(scheme):
        here, there = _shifted(total, distance)
        inside = sentence[here] == sentence[there]
        for side, item in ((0, here), (_ITEM_IS_SECOND, there)):
            rows = _row(_mix(hashes[here], hashes[there], kind | side, scheme), scheme)
            next(lines)[item] = np.where(inside, rows, missing)
    found = np.sort(table.T, axis=1)
    kept = found != missing
    kept[:, 1:] &= found[:, 1:] != found[:, :-1]
    return found[kept].astype(np.int32), kept.sum(axis=1, dtype=np.int64)


def _pairs(scheme: FeatureScheme) -> list[tuple[int, int]]:
    """Returns the distance and kind of each pair of tokens that is a feature."""
    pairs = [(1, _BIGRAM)] if scheme.bigrams else []
    if scheme.skip_grams:
        pairs += [(distance, _SKIP_GRAM) for distance in range(2, MAX_SKIPPED + 2)]
    return pairs


def _shifted(total: int, offset: int) -> tuple[slice, slice]:
    """Returns the items that have a token at an offset, and those tokens."""
    reach = max(0, total - abs(offset))
    start = max(0, -offset)
    return slice(start, start + reach), slice(start + offset, start + offset + reach)


def _mix(first: Hashes, second: Hashes | None, kind: int, scheme: FeatureScheme) -> Hashes:
    """Returns the hash of each feature, as the module's contract says."""
    import numpy as np

    mixed = first * np.uint32(0x9E3779B1)
    constant = np.uint32((kind * 0xC2B2AE3D + scheme.seed) & 0xFFFFFFFF)
    if second is None:
        mixed ^= constant
    else:
        turned = second * np.uint32(0x85EBCA77)
        turned = (turned << np.uint32(15)) | (turned >> np.uint32(17))
        turned += constant
        mixed ^= turned
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed


def _row(hashes: Hashes, scheme: FeatureScheme) -> Hashes:
    """Returns the row of each feature: its share of the 32 bits, so rows may be any number."""
    import numpy as np

    if scheme.rows & (scheme.rows - 1) == 0:
        return hashes >> np.uint32(33 - scheme.rows.bit_length())
    return (hashes.astype(np.uint64) * np.uint64(scheme.rows) >> np.uint64(32)).astype(np.uint32)
