"""Multiplicity: a value that stands in a table twice was learned, for chance never repeats itself.

Features that only ever fired together have the same weight. Among numbers drawn from a continuous
law two are hardly ever equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit.antisymmetry import spread
from hushdoc_training.audit.roc import Attack, Scores, measured

METHOD = "value multiplicity"
DIGITS = 6


def multiplicity(
    weights: npt.NDArray[np.floating], genuine: npt.NDArray[np.bool_], *, count: int = 50_000
) -> Attack:
    """Returns how well genuine rows are told from made-up ones by values that repeat.

    Args:
        weights: The released table, shape [R, d].
        genuine: Which rows were learned; what the attack wants to know.
        count: At most so many rows of each kind are looked at, spread over the table.
    """
    scores = scores_of(weights)
    return measured(METHOD, scores[spread(genuine, count)], scores[spread(~genuine, count)])


def scores_of(weights: npt.NDArray[np.floating]) -> Scores:
    """Returns for each row how many rows share its most common value, to DIGITS digits.

    Example:
        >>> scores_of(np.array([[0.5], [0.5], [0.25]])).tolist()
        [2.0, 2.0, 1.0]
    """
    found = np.zeros(len(weights))
    for column in weights.T:
        _, kind, counts = np.unique(rounded(column), return_inverse=True, return_counts=True)
        found = np.maximum(found, counts[kind])
    return found


def rounded(values: npt.NDArray[np.floating]) -> Scores:
    """Returns numbers rounded to DIGITS significant digits."""
    exact = values.astype(np.float64)
    size = np.floor(np.log10(np.abs(exact), where=exact != 0, out=np.zeros_like(exact)))
    scale = 10.0 ** (DIGITS - 1 - size)
    found: Scores = np.round(exact * scale) / scale
    return found
