"""Float pattern: how a number was made shows in its last bits.

Weights that went through a text file have few decimals, those that were halved or stored in half
precision end in zero bits; draws of a normal have neither.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit.roc import Attack, Scores
from hushdoc_training.audit.row_traces import compared

DECIMALS = 6


def float_pattern(
    weights: npt.NDArray[np.floating], genuine: npt.NDArray[np.bool_], *, count: int = 50_000
) -> Attack:
    """Returns how well the last bits of weights distinguish genuine rows; see `row_traces`."""
    return compared("float pattern", scores_of(weights), genuine, count)


def scores_of(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns how unlikely the last bits of weights are, in bits, the mean of each row.

    A large number happens to have six decimals more often than a small one. So what is compared is
    how rarely a drawn number of that size looks as round, and equal looks are ordered by lot: by
    their size alone rows are not distinguished.
    """
    found, possible = np.maximum(zero_bits(rows), spared_decimals(rows)), _spared(rows)
    more = _probability(2.0 ** -(np.floor(found) + 1), found < possible, possible)
    least = _probability(2.0 ** -np.ceil(found), found <= possible, possible)
    lots = np.random.default_rng(0).uniform(1e-9, 1, (len(rows), 1))
    return np.asarray(-np.log2(more + lots * (least - more)).mean(axis=1))


def _probability(zeros: Scores, enough: npt.NDArray[np.bool_], possible: Scores) -> Scores:
    """Returns the probability that a drawn number spares enough bits: by zeros, or by decimals."""
    decimals = np.where(enough, 2.0**-possible, 0.0)
    return np.asarray(zeros + decimals - zeros * decimals)


def zero_bits(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns how many of the 23 bits of the fraction are zeros at the end, in single precision."""
    bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32) & np.uint32(0x7FFFFF)
    lowest = bits & (~bits + np.uint32(1))
    found = np.where(bits == 0, 23.0, np.log2(np.maximum(lowest, 1)))
    return np.asarray(found, dtype=np.float64)


def spared_decimals(rows: npt.NDArray[np.floating]) -> Scores:
    """Returns how many bits are determined by the number having at most DECIMALS decimals."""
    exact = rows.astype(np.float32).astype(np.float64)
    off = np.abs(exact - np.round(exact, DECIMALS))
    return np.where(off <= _spacing(rows) / 2, _spared(rows), 0.0)


def _spared(rows: npt.NDArray[np.floating]) -> Scores:
    return np.asarray(np.log2(np.maximum(10.0**-DECIMALS / _spacing(rows), 1.0)))


def _spacing(rows: npt.NDArray[np.floating]) -> Scores:
    return np.spacing(np.abs(rows.astype(np.float32))).astype(np.float64)
