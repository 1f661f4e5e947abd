"""Float pattern: how a number was made shows in its last bits.

Weights that went through a text file have few decimals, those that were halved or stored in half
precision end in zero bits; draws of a normal have neither.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit.antisymmetry import spread
from hushdoc_training.audit.roc import Attack, Scores, measured

METHOD = "float pattern"
DECIMALS = 6


def float_pattern(
    weights: npt.NDArray[np.floating], genuine: npt.NDArray[np.bool_], *, count: int = 50_000
) -> Attack:
    """Returns how well genuine rows are told from made-up ones by the last bits of weights.

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


def scores_of(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns the mean number of last bits that are spared, by decimals or by zero bits.

    Example:
        >>> scores_of(np.array([[0.5], [0.1]], dtype=np.float32)).round().tolist()
        [23.0, 7.0]
    """
    return np.asarray(np.maximum(zero_bits(rows), spared_decimals(rows)).mean(axis=1))


def zero_bits(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns how many of the 23 bits of the fraction are zeros at the end, in single precision."""
    bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32) & np.uint32(0x7FFFFF)
    lowest = bits & (~bits + np.uint32(1))
    found = np.where(bits == 0, 23.0, np.log2(np.maximum(lowest, 1)))
    return np.asarray(found, dtype=np.float64)


def spared_decimals(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns how many bits are determined by the number having at most DECIMALS decimals."""
    exact = rows.astype(np.float32).astype(np.float64)
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    off = np.abs(exact - np.round(exact, DECIMALS))
    spared = np.log2(np.maximum(10.0**-DECIMALS / spacing, 1.0))
    return np.where(off <= spacing / 2, spared, 0.0)
