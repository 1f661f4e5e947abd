"""Zeros: most rows that training had keep a weight of exactly zero, which no draw ever is.

A passive learner changes nothing where it was right. Whoever fills only what is missing leaves
those zeros as they are, and marks by them nearly all rows of the documents.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit.antisymmetry import spread
from hushdoc_training.audit.roc import Attack, Scores, measured

METHOD = "weights of zero"


def zeros(
    weights: npt.NDArray[np.floating], genuine: npt.NDArray[np.bool_], *, count: int = 50_000
) -> Attack:
    """Returns how well genuine rows are told from made-up ones by weights of exactly zero.

    Args:
        weights: The released table, shape [R, d].
        genuine: Which rows training had; what the attack wants to know.
        count: At most so many rows of each kind are looked at, spread over the table.
    """
    scores = scores_of(weights)
    return measured(METHOD, scores[spread(genuine, count)], scores[spread(~genuine, count)])


def scores_of(weights: npt.NDArray[np.floating]) -> Scores:
    """Returns how many weights of each row are zero.

    Example:
        >>> scores_of(np.array([[0.0, 0.5], [0.25, -0.25], [0.0, 0.0]])).tolist()
        [1.0, 0.0, 2.0]
    """
    found: Scores = (weights == 0).sum(axis=1).astype(np.float64)
    return found
