"""Nearest pages: whether documents that are given away lie nearer to private ones than to others.

Where a set copies what it was made from, its documents lie nearer to private documents than to
held-out ones of the same source, which nobody showed it. Both groups have equal sizes here, as the
nearest of more documents is nearer. Two fixed groups bound no epsilon: this is a look, and finds
copies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Nearest:
    """The nearest document of a group to each of a set.

    Attributes:
        places: Its place in the group, shape [N].
        distances: How far it is, shape [N].
    """

    places: Places
    distances: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The nearest private and the nearest held-out document of each of a set.

    Attributes:
        private: Nearest private ones.
        held_out: Nearest held-out ones.
    """

    private: Nearest
    held_out: Nearest

    @property
    def nearer_to_private(self) -> float:
        """Share of the set that is nearer to a private document; ties count half.

        About a half is expected of a set that copies nothing.
        """
        gaps = self.held_out.distances - self.private.distances
        return float((gaps > 0).mean() + (gaps == 0).mean() / 2)

    @property
    def p_value(self) -> float:
        """Probability of so large a share by fair coins, one for each document that is no tie.

        Documents of a set are alike, so it is for orientation alone.
        """
        gaps = self.held_out.distances - self.private.distances
        nearer, number = int((gaps > 0).sum()), int((gaps != 0).sum())
        ways = sum(math.comb(number, k) for k in range(nearer, number + 1))
        return ways / 2**number

    def closest(self, count: int) -> list[int]:
        """Returns the places of documents that are nearest to a private one, as held-out ones go.

        They are those with the largest gap between both distances.
        """
        gaps = self.held_out.distances - self.private.distances
        return np.argsort(-gaps, kind="stable")[:count].tolist()


def compared(points: Floats, private: Floats, held_out: Floats) -> Comparison:
    """Returns which private and which held-out point is nearest to each of a set's.

    Args:
        points: Of the set, shape [N, D].
        private: Shape [M, D].
        held_out: Of the same source, shape [M, D].

    Raises:
        ValueError: There is none, or the groups differ in size.

    Example:
        >>> found = compared(np.zeros((1, 2)), np.ones((1, 2)), np.full((1, 2), 2.0))
        >>> found.nearer_to_private
        1.0
    """
    if not len(points) or not len(private) == len(held_out) > 0:
        raise ValueError(
            f"there are {len(points)} documents, {len(private)} private and {len(held_out)} "
            "held-out ones; expected some, and two groups of equal size."
        )
    return Comparison(private=nearest(points, private), held_out=nearest(points, held_out))


def nearest(points: Floats, group: Floats) -> Nearest:
    """Returns which point of a group, of at least one, is nearest to each of a set's."""
    found = [np.linalg.norm(group - point, axis=1) for point in points]
    places = np.array([int(each.argmin()) for each in found], dtype=np.int64)
    return Nearest(places=places, distances=np.array([float(each.min()) for each in found]))
