"""Proposals: what the noisy sums of votes say of where documents are; all of it post-processing.

Nothing here reads a document. Thresholds are multiples of the noise, which is public.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hushdoc_training.synthesis import ballots

Floats = npt.NDArray[np.float64]

_THRESHOLD = 2.0
"""Deviations of the noise below which a cell counts as empty."""

_WORD_THRESHOLD = 4.2
"""Deviations below which a word counts as absent: of 20,000 that nobody has, one of four sums shows
one (a normal deviate is above 4.2 with probability 1.3e-5)."""

_PRIOR = 0.15
"""Share of every proposal that is drawn as if nobody had voted, which keeps pools diverse."""

_ITERATIONS = 300


def shares_of_pages(sums: Floats, *, deviation: float) -> Floats:
    """Returns how often each page of a pool becomes a parent; equal shares where none stands out.

    Private Evolution's histogram with its threshold (arXiv 2305.15560, algorithm 2).

    Example:
        >>> shares_of_pages(np.array([30.0, 10.0, 3.0]), deviation=2.0).tolist()
        [0.75, 0.25, 0.0]
    """
    kept = np.where(sums >= _THRESHOLD * deviation, sums, 0.0)
    total = float(kept.sum())
    return kept / total if total > 0 else np.full(len(sums), 1 / len(sums))


def shares_of_values(
    sums: Floats, sizes: Sequence[int], weights: Floats, *, deviation: float
) -> list[Floats]:
    """Returns the shares of each factor's values: what stands out of the noise, and the prior.

    Args:
        sums: The noisy votes, shape [sum of sizes].
        sizes: How many values each factor has.
        weights: The share of the squared norm that each factor has in a vote.
        deviation: Of the noise in each cell.

    Example:
        >>> sums = np.array([90.0, 8.0, 2.0])
        >>> [one.round(2).tolist() for one in shares_of_values(sums, [3], np.ones(1), deviation=4.)]
        [[0.82, 0.12, 0.06]]
    """
    roots = np.sqrt(weights)
    voters = max(float(sums.sum()) / float(roots.sum()), 0.0)
    made = []
    for votes, root in zip(np.split(sums, np.cumsum(sizes)[:-1]), roots, strict=True):
        counts = votes / root
        kept = np.where(counts >= _THRESHOLD * deviation / root, counts, 0.0)
        unseen = max(voters - float(kept.sum()), 0.0)
        spread = kept + unseen / len(kept)
        total = float(spread.sum())
        found = spread / total if total > 0 else np.full(len(kept), 1 / len(kept))
        made.append((1 - _PRIOR) * found + _PRIOR / len(kept))
    return made


def shares_of_words(sums: Floats, listed: Sequence[str], *, deviation: float) -> dict[str, float]:
    """Returns which words of a public list stand out of the noise, and on which share of documents.

    Args:
        sums: The noisy sum of `ballots.presence` over the planned number of documents.
        listed: The list.
        deviation: Of the noise in each cell.

    Example:
        >>> shares_of_words(np.array([0.1, 0.02]), ("jalan", "total"), deviation=0.01)
        {'jalan': 0.8}
    """
    each = np.sqrt(ballots.MOST_WORDS)
    return {
        listed[place]: min(float(sums[place] * each), 1.0)
        for place in np.flatnonzero(sums >= _WORD_THRESHOLD * deviation).tolist()
    }


def shares_fitted(sums: Floats, points: Floats) -> Floats:
    """Returns shares of public pages whose mean point has the direction of the noisy sum.

    Multiplicative updates for least squares of nonnegative weights (Lee and Seung 2001), begun at
    equal ones and stopped early; the number of documents is not needed.

    Example:
        >>> shares_fitted(np.array([0.0, 9.0]), np.eye(2)).round(3).tolist()
        [0.0, 1.0]
    """
    towards = np.maximum(points @ np.maximum(sums, 0.0), 0.0)
    if not towards.any():
        return np.full(len(points), 1 / len(points))
    shares = np.full(len(points), float(towards.sum()) / len(points))
    for _ in range(_ITERATIONS):
        shares *= towards / np.maximum(points @ (shares @ points), 1e-12)
    return np.asarray(shares / shares.sum())


def herded(goal: Floats, points: Floats, count: int) -> list[int]:
    """Returns so many public pages, none twice, whose mean point is near a goal.

    One after the other that page is taken that brings the mean nearest to the goal: herding (Chen,
    Welling and Smola 2010, arXiv 1203.3472) without replacement.

    Args:
        goal: A mean that was found, shape [D].
        points: Those of the pages, shape [M, D].
        count: How many are taken, at most M.

    Example:
        >>> herded(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 2)
        [1, 2]
    """
    lengths, towards = np.square(points).sum(axis=1), points @ goal
    taken: list[int] = []
    total = np.zeros(len(points))
    for number in range(1, count + 1):
        apart = lengths - 2 * (number * towards - total)
        apart[taken] = np.inf
        taken.append(int(apart.argmin()))
        total += points @ points[taken[-1]]
    return taken
