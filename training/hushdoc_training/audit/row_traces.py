"""Row traces: what training leaves in a row of a table, and a drawn row does not have.

    zeros          A passive learner changes nothing where it was right. Whoever fills only what is
                   missing leaves those weights of exactly zero, which no draw ever gives, and marks
                   by them nearly all rows of the documents.
    antisymmetry   A gradient of a random field takes from one label what it gives to another, so a
                   learned row's weights sum to exactly 0. Drawing the columns of missing rows
                   independently marks the genuine ones by that.
    multiplicity   Features that only ever fired together have the same weight. Of numbers drawn
                   from a continuous distribution two are hardly ever equal.

Each attack takes the released table, shape [R, d], and which rows are genuine, which is what the
attack wants to know. It looks at no more than `count` rows of either sort, spread over the table.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit.roc import Attack, Scores, measured

DIGITS = 6
"""Significant digits to which repeated values are equal."""

Table = npt.NDArray[np.floating]
Rows = npt.NDArray[np.bool_]


def zeros(weights: Table, genuine: Rows, *, count: int = 50_000) -> Attack:
    """Returns how well weights of exactly zero distinguish genuine rows."""
    return compared("weights of zero", zeros_of(weights), genuine, count)


def antisymmetry(weights: Table, genuine: Rows, *, count: int = 50_000) -> Attack:
    """Returns how well sums of zero distinguish genuine rows."""
    return compared("antisymmetric rows", antisymmetry_of(weights), genuine, count)


def multiplicity(weights: Table, genuine: Rows, *, count: int = 50_000) -> Attack:
    """Returns how well repeated values distinguish genuine rows."""
    return compared("value multiplicity", multiplicity_of(weights), genuine, count)


def compared(method: str, scores: Scores, genuine: Rows, count: int) -> Attack:
    """Returns the rates of an attack that scored every row."""
    return measured(method, scores[spread(genuine, count)], scores[spread(~genuine, count)])


def spread(chosen: Rows, count: int) -> npt.NDArray[np.intp]:
    """Returns at most so many of the rows that are chosen, evenly spread over the table."""
    places = np.flatnonzero(chosen)
    if len(places) <= count:
        return places
    return places[np.linspace(0, len(places) - 1, count).astype(np.intp)]


def zeros_of(weights: Table) -> Scores:
    """Returns how many weights of each row are zero."""
    found: Scores = (weights == 0).sum(axis=1).astype(np.float64)
    return found


def antisymmetry_of(weights: Table) -> Scores:
    """Returns minus the size of each row's sum, as a share of its largest weight."""
    exact = weights.astype(np.float64)
    largest = np.abs(exact).max(axis=1)
    found: Scores = -np.abs(exact.sum(axis=1)) / np.where(largest > 0, largest, 1.0)
    return found


def multiplicity_of(weights: Table) -> Scores:
    """Returns for each row how many rows share its most common value, to DIGITS digits."""
    found = np.zeros(len(weights))
    for column in weights.T:
        _, place, counts = np.unique(_rounded(column), return_inverse=True, return_counts=True)
        found = np.maximum(found, counts[place])
    return found


def _rounded(values: npt.NDArray[np.floating]) -> Scores:
    exact = values.astype(np.float64)
    size = np.floor(np.log10(np.abs(exact), where=exact != 0, out=np.zeros_like(exact)))
    scale = 10.0 ** (DIGITS - 1 - size)
    found: Scores = np.round(exact * scale) / scale
    return found
