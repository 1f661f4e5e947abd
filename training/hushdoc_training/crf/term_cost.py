"""Term cost: what Hash the Universe states as the privacy of a term, measured both ways.

The paper (sections 4.3 and 5) fits a normal distribution to each column of the complete rows, fits
another without the K values farthest from the mean, where K is the number of features that a term
appears in, and states the Renyi divergence between the two, summed over columns and converted at
delta.

It is a measured divergence between fitted distributions, not differential privacy: genuine rows are
released as they are, and the number does not bound what they reveal. The paper's figures show one
direction; here are both, since the definition is symmetrical and the other direction costs several
times more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.hashing import FeatureScheme

Doubles = npt.NDArray[np.float64]

KIND = "measured divergence between fitted distributions; not differential privacy"
"""What every number of this module is; it stands beside them wherever they are written."""

DELTA = 1e-5

ORDERS: Doubles = 1.0 + np.logspace(-2, 6, 8001)
"""Orders above 1 among which the best is looked for."""

_FLOOR = 1e-12
"""Least variance in any direction, as a share of the largest."""


@dataclass(frozen=True, kw_only=True)
class TermCost:
    """The measured cost of a term, as epsilons at delta; see KIND."""

    removed: int  # how many rows the neighbouring distribution was fitted without
    without_term: float  # of the divergence from the one with it, as in the paper's figures
    with_term: float  # of the divergence the other way; infinite where it has none
    delta: float

    @property
    def epsilon(self) -> float:
        """The larger of both directions, as the definition demands."""
        return max(self.without_term, self.with_term)


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The distinct words of a corpus, as they are hashed, the one in most features first.

    Features are counted before they share rows.
    """

    words: tuple[str, ...]
    features: npt.NDArray[np.int64]  # in how many each word appears
    total: int  # of different features

    @property
    def shares(self) -> Doubles:
        """The share of all features that each word appears in."""
        shares: Doubles = self.features / self.total
        return shares


class AdjacentDistributions:
    """Distributions of a table's columns, with and without the values farthest from the mean."""

    def __init__(self, rows: Doubles) -> None:
        """Sorts the values once, so that any number of them can be left out quickly."""
        if rows.ndim != 2 or len(rows) < 2:
            raise ValueError(f"rows have the shape {rows.shape}; expected at least two rows.")
        off = rows - rows.mean(axis=0)
        order = np.argsort(np.abs(off), axis=0, kind="stable")
        kept = np.take_along_axis(off, order, axis=0)
        counts = np.arange(1, len(rows) + 1)[:, None]
        self._means = np.cumsum(kept, axis=0) / counts
        squares = np.cumsum(np.square(kept), axis=0) / counts
        self._variances = np.maximum(squares - np.square(self._means), 0.0)

    def divergences(self, removed: int, orders: Doubles = ORDERS) -> tuple[Doubles, Doubles]:
        """Returns the divergence without the term from with it, and back, per order above 1.

        They are infinite where fewer than two rows would be left.
        """
        if removed < 0:
            raise ValueError(f"removed is {removed}; expected a number from 0.")
        if len(self._means) - removed < 2:
            return np.full(len(orders), np.inf), np.full(len(orders), np.inf)
        whole = (self._means[-1], np.sqrt(self._variances[-1]))
        place = len(self._means) - 1 - removed
        part = (self._means[place], np.sqrt(self._variances[place]))
        forth, back = np.zeros(len(orders)), np.zeros(len(orders))
        for m1, s1, m2, s2 in zip(*part, *whole, strict=True):
            forth += renyi_of_normals(orders, m1, s1, m2, s2)
            back += renyi_of_normals(orders, m2, s2, m1, s1)
        return forth, back

    def cost(self, removed: int, delta: float = DELTA) -> TermCost:
        """Returns the cost of a term.

        Example:
            >>> rows = np.linspace(-1, 1, 1000)[:, None]
            >>> found = AdjacentDistributions(rows).cost(10)
            >>> found.without_term < found.with_term
            True
        """
        return composed([self.divergences(removed)], removed=removed, delta=delta)

    def cost_of_share(self, share: float, delta: float = DELTA) -> TermCost:
        """Returns the cost of a term in a share of all features, as figure 2 of the paper has it.

        The same share of the rows is left out, rounded upwards.
        """
        return self.cost(math.ceil(share * len(self._means)), delta)


def renyi_of_normals(orders: Doubles, m1: float, s1: float, m2: float, s2: float) -> Doubles:
    """Returns the Renyi divergence of two normal distributions (Gil et al. 2013, table 2).

    It is infinite for an order, all above 1, that the first distribution is too wide for.

    Example:
        >>> renyi_of_normals(np.array([2.0, 2.0]), 0, 1, 1, 1).tolist()
        [1.0, 1.0]
        >>> renyi_of_normals(np.array([2.0]), 0, 2, 0, 1).tolist()
        [inf]
    """
    if s1 == 0 or s2 == 0:
        return np.full(len(orders), 0.0 if (m1, s1) == (m2, s2) else np.inf)
    mixed = orders * s2**2 + (1 - orders) * s1**2
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (
            math.log(s2 / s1)
            + np.log(s2**2 / mixed) / (2 * (orders - 1))
            + orders * (m1 - m2) ** 2 / (2 * mixed)
        )
    # Rounding may leave a little less than nothing where both distributions are the same.
    return np.where(mixed > 0, np.maximum(found, 0.0), np.inf)


def joint_divergences(
    rows: Doubles, removed: int, orders: Doubles = ORDERS
) -> tuple[Doubles, Doubles]:
    """Returns what `AdjacentDistributions.divergences` does, of one normal over all columns.

    This is what an update costs (claim 3 of the paper): its distribution has a weight and an
    amount for each label, which belong together. The rows left out are the farthest from the mean
    in units of the distribution's own spread; a direction in which no row has any is left out.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> found = composed([joint_divergences(rows, 10)], removed=10)
        >>> found.without_term < found.with_term
        True
    """
    if removed < 0:
        raise ValueError(f"removed is {removed}; expected a number from 0.")
    if len(rows) - removed < 2:
        return np.full(len(orders), np.inf), np.full(len(orders), np.inf)
    values, vectors = np.linalg.eigh(np.cov(rows, rowvar=False, ddof=0).reshape(rows.shape[1], -1))
    wide = values > _FLOOR * values.max(initial=0.0)
    white = (rows - rows.mean(axis=0)) @ (vectors[:, wide] / np.sqrt(values[wide]))
    near = np.argsort(np.square(white).sum(axis=1), kind="stable")[: len(rows) - removed]
    part = white[near]
    spreads, axes = np.linalg.eigh(np.cov(part, rowvar=False, ddof=0).reshape(white.shape[1], -1))
    # In these axes both distributions are independent, so that divergences of columns add up.
    means, forth, back = part.mean(axis=0) @ axes, np.zeros(len(orders)), np.zeros(len(orders))
    for mean, variance in zip(means, np.maximum(spreads, 0.0), strict=True):
        forth += renyi_of_normals(orders, mean, math.sqrt(variance), 0.0, 1.0)
        back += renyi_of_normals(orders, 0.0, 1.0, mean, math.sqrt(variance))
    return forth, back


def composed(
    releases: Iterable[tuple[Doubles, Doubles]],
    *,
    removed: int,
    delta: float = DELTA,
    orders: Doubles = ORDERS,
) -> TermCost:
    """Returns the cost of a term over a first release and its updates (claim 3 of the paper).

    `releases` are what `AdjacentDistributions.divergences` and, for updates, `joint_divergences`
    returned at these orders; delta is paid once for all.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; expected a number between 0 and 1.")
    forth, back = np.zeros(len(orders)), np.zeros(len(orders))
    for one_way, other_way in releases:
        forth, back = forth + one_way, back + other_way
    failure = math.log(1 / delta) / (orders - 1)
    return TermCost(
        removed=removed,
        without_term=float((forth + failure).min()),
        with_term=float((back + failure).min()),
        delta=delta,
    )


def terms(sentences: Sequence[Sequence[str]], scheme: FeatureScheme) -> Terms:
    """Returns every word with the number of features that it appears in.

    A feature counts for each word that it is made of; features that share a row count apart.

    Example:
        >>> found = terms([["a", "b", "c"], ["a", "b"]], FeatureScheme())
        >>> dict(zip(found.words, found.features.tolist())), found.total
        ({'a': 3, 'b': 3, 'c': 3}, 6)
    """
    number_of: dict[str, int] = {}
    lengths = np.array([len(words) for words in sentences], dtype=np.int64)
    numbers = np.fromiter(
        (
            number_of.setdefault(word.lower() if scheme.lowercase else word, len(number_of))
            for words in sentences
            for word in words
        ),
        dtype=np.int64,
        count=int(lengths.sum()),
    )
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    count = len(number_of)
    places = 1 if scheme.level == "sentence" else 2 * scheme.window + 1
    own = places * (2 if scheme.clusters else 1)
    found = np.full(count, own, dtype=np.int64)
    total = count * places + (min(scheme.clusters, count) * places)
    # At the level of tokens a pair is one feature of its first token and another of its second.
    sides = 1 if scheme.level == "sentence" else 2
    for distances in _distances(scheme):
        first, second = _pairs(numbers, sentence, distances, count)
        each = np.bincount(first, minlength=count) + np.bincount(second, minlength=count)
        found += sides * (each - np.bincount(first[first == second], minlength=count))
        total += sides * len(first)
    order = np.argsort(-found, kind="stable")
    words = list(number_of)
    return Terms(
        words=tuple(words[place] for place in order.tolist()), features=found[order], total=total
    )


def _distances(scheme: FeatureScheme) -> list[range]:
    """Returns the distances of the pairs that are one type of feature."""
    near = [range(1, 2)] if scheme.bigrams else []
    return near + ([range(2, hashing.MAX_SKIPPED + 2)] if scheme.skip_grams else [])


def _pairs(
    numbers: npt.NDArray[np.int64],
    sentence: npt.NDArray[np.int64],
    distances: range,
    count: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns every different pair of words within a sentence at one of the distances."""
    keys = [np.zeros(0, dtype=np.int64)]
    for distance in distances:
        inside = sentence[distance:] == sentence[:-distance]
        pairs = numbers[:-distance] * count + numbers[distance:]
        keys.append(np.unique(pairs[inside]))
    found = np.unique(np.concatenate(keys))
    return found // max(count, 1), found % max(count, 1)
