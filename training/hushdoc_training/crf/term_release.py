"""Differential privacy of single terms: rows of log-odds inside a ball, and noise on every cell.

Two tables that differ in K rows, each row inside the ball of radius B in both, are 2 B sqrt(K)
apart, so noise of deviation s on every cell makes them as hard to distinguish as a Gaussian
mechanism of noise multiplier s / (2 B sqrt(K)) does. That is a statement about tables. It becomes
one about terms only because rows of `log_odds` are each computed from their own counts, and a term
is in a known number of rows; trained rows depend on one another, and nothing would follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc_training.crf.chain import Floats
from hushdoc_training.metering import Meter
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.receipt import Receipt

_SLACK = 1e-9
"""Rows are shorter by this share, so that rounding in float64 lifts none out of the ball."""

_CHUNK_ROWS = 1 << 18


@dataclass(frozen=True, kw_only=True, eq=False)
class LogOddsTable:
    """A table of `log_odds`; not to be released before `released`."""

    weights: npt.NDArray[np.float32]  # shape [R, d]; 0 where nothing was learned
    bound: float  # largest L2 norm of a row
    scheme: FeatureScheme  # its features, of which each term has a bounded number


def projected(rows: Floats, bound: float) -> Floats:
    """Returns rows drawn back to the ball of a radius; those inside stay as they are.

    Example:
        >>> projected(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(2).tolist()
        [[0.6, 0.8], [0.3, 0.4]]
    """
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    made: Floats = rows * (bound / np.maximum(norms, bound))
    return made


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTable:
    """What may be released, for every cell of it carries noise, and the receipt of how."""

    weights: npt.NDArray[np.float32]  # shape [R, d]
    receipt: Receipt


def released(table: LogOddsTable, *, noise_std: float, stream: SecretStream) -> NoisyTable:
    """Returns the table with noise on every cell, those where nothing was learned included.

    Rows are drawn back to the ball first and cut off to whole steps of a public grid, so that no
    rounding leaves it; the noise is integers. Cells are multiples of the grid's step. The receipt
    is of a mechanism on terms: tables that differ in all rows of one are at most `term_sensitivity`
    apart.
    """
    if not (math.isfinite(noise_std) and noise_std > 0):
        raise ValueError(f"noise_std is {noise_std}; expected a positive number.")
    bound, meter = table.bound, Meter(planned_steps=1, privacy_unit="token-term")
    grid = lattice.of_truncated(norm=bound, noise_multiplier=noise_std / bound)
    apart = term_sensitivity(bound=bound, rows=rows_of_a_term(table.scheme))
    meter.whole_batch()
    meter.clipped(apart)
    meter.noised(
        std=grid.deviation,
        sensitivity=apart,
        origin=origin_of(stream),
        distribution=grid.distribution,
    )
    meter.divided(1)
    made = np.empty_like(table.weights)
    for first in range(0, len(made), _CHUNK_ROWS):
        part = slice(first, first + _CHUNK_ROWS)
        rows = projected(table.weights[part].astype(np.float64), bound) * (1 - _SLACK)
        steps = lattice.truncated(rows, grid.step) + grid.noise(stream, rows.shape)
        made[part] = steps * grid.step
    return NoisyTable(weights=made, receipt=meter.receipt())


def term_sensitivity(*, bound: float, rows: int = 1) -> float:
    """Returns how far (L2) two tables are apart at most that differ in some rows.

    A row that differs has any two values in the ball of radius `bound`.

    Example:
        >>> term_sensitivity(bound=0.5, rows=4)
        2.0
    """
    return 2 * bound * math.sqrt(rows)


def rows_of_a_term(scheme: FeatureScheme) -> int:
    """Returns how many rows hold a term: its own and its cluster's.

    Of pairs of tokens or neighbours a term can be in any number: a ValueError.

    Example:
        >>> rows_of_a_term(FeatureScheme(bigrams=False, skip_grams=False))
        1
    """
    if scheme.level != "sentence" or scheme.bigrams or scheme.skip_grams:
        raise ValueError(
            "A term is in a bounded number of rows only where items are sentences and no feature "
            "is a pair of tokens. Turn bigrams and skip_grams off."
        )
    return 2 if scheme.clusters else 1


def log_odds(
    sentences: Sequence[Sequence[str]],
    labels: npt.NDArray[np.int64],
    scheme: FeatureScheme,  # tokens alone, or a ValueError
    *,
    num_labels: int,
    bound: float,
    smoothing: float = 1.0,  # items that each row is taken to be in besides
    clusters: Clusters | None = None,
) -> LogOddsTable:
    """Returns a table in which each row is learned from its own counts alone.

    A row's weight for a label is the logarithm of its share in the items of that label over its
    share in all items, drawn back to the ball. Where all places of one term are made empty, items
    and their labels stay as many as they were, so only the rows that hold the term change: with
    `rows_of_a_term` and `term_sensitivity` that is a guarantee for terms.
    """
    rows_of_a_term(scheme)
    rows = scheme.rows
    features = hashing.features(sentences, scheme, clusters)
    items = np.bincount(labels, minlength=num_labels).astype(np.float64)
    column = np.repeat(labels, np.diff(features.offsets))
    cells = features.indices.astype(np.int64) * num_labels + column
    counts = np.bincount(cells, minlength=rows * num_labels).reshape(rows, num_labels)
    whole = counts.sum(axis=1, keepdims=True)
    base = (whole + smoothing) / (items.sum() + smoothing)
    found = np.log((counts + smoothing * base) / (items + smoothing)) - np.log(base)
    found[whole[:, 0] == 0] = 0.0
    found -= found.mean(axis=1, keepdims=True)
    weights = projected(found, bound).astype(np.float32)
    return LogOddsTable(weights=weights, bound=bound, scheme=scheme)
