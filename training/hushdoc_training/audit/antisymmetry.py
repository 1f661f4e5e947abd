"""Antisymmetry: learned rows add up to nothing, made-up ones don't.

A gradient of a random field takes from one label what it gives to another, so a learned row's
weights add up to exactly 0. Whoever draws the columns of missing rows independently marks the
genuine ones by that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit.roc import Attack, Scores, measured

METHOD = "antisymmetric rows"


def antisymmetry(
    weights: npt.NDArray[np.floating], genuine: npt.NDArray[np.bool_], *, count: int = 50_000
) -> Attack:
    """Returns how well genuine rows are told from made-up ones by their sums.

    Args:
        weights: The released table, shape [R, d].
        genuine: Which rows were learned; what the attack wants to know.
        count: At most so many rows of each kind are looked at, spread over the table.
    """
    return measured(
        METHOD,
        scores_of(weights[spread(genuine, count)]),
        scores_of(weights[spread(~genuine, count)]),
    )


def spread(chosen: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.intp]:
    """Returns at most so many of the rows that are chosen, evenly spread over the table.

    Example:
        >>> spread(np.array([True, False, True, True]), 2).tolist()
        [0, 3]
    """
    places = np.flatnonzero(chosen)
    if len(places) <= count:
        return places
    return places[np.linspace(0, len(places) - 1, count).astype(np.intp)]


def scores_of(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns minus the size of each row's sum, as a share of its largest weight."""
    exact = rows.astype(np.float64)
    largest = np.abs(exact).max(axis=1)
    found: Scores = -np.abs(exact.sum(axis=1)) / np.where(largest > 0, largest, 1.0)
    return found
