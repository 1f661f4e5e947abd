"""Ballots: what a private document votes for, as a vector of Euclidean norm at most 1.

Three kinds, by name. All are functions of one document's point and of a public pool. `pages` is
Private Evolution's histogram of nearest neighbours (Lin et al. 2024, arXiv 2305.15560, algorithm 2)
with a simulator (arXiv 2502.05505); `factors` counts what the nearest pages were made from, so that
noise does not grow with the pool; `moments` is the point itself, to which proposals are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc import arguments

Floats = npt.NDArray[np.float64]
Levels = npt.NDArray[np.int64]

VOTES = ("pages", "factors", "moments")

WORDS_SHARE = 0.5
"""Share of the squared norm of a vote that words have, where they are voted for."""

MOST_WORDS = 64
"""For how many words a document votes at most."""

Ballot = Callable[[Floats], Floats]
"""Returns the vote of a document's point: of 0 the vector 0, of NaN a vector of NaN, as who sums
votes takes for 0 and counts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Public documents to vote for.

    Attributes:
        points: Their points, shape [M, D].
        levels: What each was made from: the place of the value of each factor, shape [M, F].
        sizes: How many values each factor has.
        weights: Share of the squared norm of each factor in a vote; together 1.
    """

    points: Floats
    levels: Levels
    sizes: tuple[int, ...]
    weights: Floats

    @property
    def starts(self) -> Levels:
        """Where each factor's values begin among all cells."""
        return np.concatenate(([0], np.cumsum(self.sizes)[:-1])).astype(np.int64)


def presence(words: Container[str], listed: Sequence[str]) -> Floats:
    """Returns a vote for the words of a document that a public list has, shape [len(listed)].

    Each has 1/8, and there are at most 64, the first of the list: so its norm is at most 1, and a
    word that the list lacks has no cell.

    Example:
        >>> presence({"jalan", "xyzzy"}, ("jalan", "total")).tolist()
        [0.125, 0.0]
    """
    made = np.zeros(len(listed))
    found = [place for place, word in enumerate(listed) if word in words]
    made[found[:MOST_WORDS]] = 1 / np.sqrt(MOST_WORDS)
    return made


def with_words(cast: Ballot, size: int) -> Ballot:
    """Returns a ballot of points of a size that a `presence` follows; both votes in one norm."""

    def both(point: Floats) -> Floats:
        if not point[:size].any():
            return np.concatenate([cast(point[:size]), np.zeros(len(point) - size)])
        pages = np.sqrt(1 - WORDS_SHARE) * cast(point[:size])
        return np.concatenate([pages, np.sqrt(WORDS_SHARE) * point[size:]])

    return both


def size_of(vote: str, pool: Pool) -> int:
    """Returns how many cells a ballot of one of VOTES has."""
    arguments.choice(vote, VOTES, what="vote")
    if vote == "pages":
        return len(pool.points)
    return int(sum(pool.sizes)) if vote == "factors" else pool.points.shape[1]


def ballot(vote: str, pool: Pool, *, nearest: int) -> Ballot:
    """Returns the function from a document's point to its vote.

    Args:
        vote: One of VOTES.
        pool: What is voted for.
        nearest: For how many of the nearest pages a document votes.

    Raises:
        ValueError: There are fewer pages than are voted for.
    """
    arguments.choice(vote, VOTES, what="vote")
    if not 1 <= nearest <= len(pool.points):
        raise ValueError(f"nearest is {nearest!r}; expected 1 to {len(pool.points)}, the pool.")
    lengths = np.square(pool.points).sum(axis=1)
    starts, roots = pool.starts, np.sqrt(pool.weights)
    size = size_of(vote, pool)

    def cast(point: Floats) -> Floats:
        if not point.any():
            return np.zeros(size)
        if not np.isfinite(point).all():
            return np.full(size, np.nan)
        if vote == "moments":
            return point / max(1.0, float(np.linalg.norm(point)))
        # One document at a time: its distances are the same whoever else votes.
        distances = lengths - 2 * (pool.points @ point)
        chosen = np.argsort(distances, kind="stable")[:nearest]
        made = np.zeros(size)
        if vote == "pages":
            made[chosen] = 1 / np.sqrt(nearest)
            return made
        cells = pool.levels[chosen] + starts
        np.add.at(made, cells.ravel(), np.tile(roots / nearest, len(chosen)))
        return made

    return cast
