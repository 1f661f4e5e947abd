"""Filling: every row of a fitted table gets weights, so that the set of rows says nothing.

`paper_fill` is the method of Hash the Universe (sections 4.1, 4.2): rows and weights that no item
of training had are drawn from a distribution fitted to the complete rows, and all others stay as
they are. What stays is what attacks find: weights that are exactly zero, as most are; features that
fired together in few places and carry the very same weight; two weights of a row that add up to
exactly zero; a weight that occurs in several rows; and its floating point number, which shows how
it was computed.

`noisy_fill` releases no learned number as it is. Only differences between the labels of a row
matter to decoding, so every row is first centred; a missing row is then the copy of a genuine row,
drawn secretly; and every row, genuine or not, gets normal noise with `noise` times the spread of
the genuine ones. A row alone then hardly shows whether it was learned. The rows of one term
together reveal more: where pairs of tokens have rows, the sum of a dozen outgrows the noise, and
more noise costs what the table is for. So noise is for tables of tokens alone, where a term has one
row, and terms of few documents should not have been learned (NOISY_FILL_DOCUMENTS). None of this is
differential privacy.

`updated_*` release a further training of a table that is out already (section 4.5): the amounts by
which rows changed are filled, and what was released before is never drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc.errors import InputError
from hushdoc_training.crf import distributions
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.randomness.secret_stream import SecretStream

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

NOISE = 0.5
"""Spreads of the genuine rows that the noisy fill adds as noise where a term has many rows."""

SCALED_NOISE = 1.0
"""The same where rows have public scales and a term has one row: a full spread then hides it, and
costs little, as rows that public text does not use stay small."""

NOISY_FILL_DOCUMENTS = 10
"""Features of fewer documents should be dropped before training where a table gets the noisy fill.

Noise alone does not hide a rare term: its dozen features all speak for the label of the sentence
that it stood in, and together they outgrow the noise. What was never learned can't be found. See
`frequency.frequent`, which counts features rather than rows.
"""

_CHUNK_ROWS = 1 << 16


def paper_fill(
    table: FittedTable,
    *,
    stream: SecretStream,
    family: str = "normals",
    zeros_drawn: bool = False,
) -> Floats:
    """Returns the table with its missing weights drawn as the paper does, shape [rows, labels].

    A weight is there for every label that a row occurred with (section 5 of the paper), also where
    training left it at zero. CRFsuite's model file leaves these out, so whoever fills such a file
    draws them as well (`zeros_drawn`): that hides zeros, and puts noise on all that training held
    to say nothing. The paper's case study is the family "normals".

    Example:
        >>> learned = np.full((8, 2), np.nan, np.float32)
        >>> learned[:3] = [[1, -1], [2, -2], [3, -3]]
        >>> table = FittedTable(
        ...     weights=learned, seen=~np.isnan(learned),
        ...     transitions=np.eye(2, dtype=np.float32), labels=("O", "clause"))
        >>> made = paper_fill(table, stream=SecretStream())
        >>> made[:3].tolist(), bool(np.isfinite(made).all())
        ([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]], True)
    """
    _require_learned(int(table.genuine.sum()))
    rows = table.weights if zeros_drawn else table.realized
    distribution = distributions.fitted(family, complete_rows(rows), stream)
    return distribution.complete(rows.astype(np.float64), stream).astype(np.float32)


def complete_rows(weights: Floats) -> Doubles:
    """Returns the rows with a weight for every label, to which distributions are fitted.

    Where fewer than two are complete, missing weights of the learned rows count as zeros, which is
    what CRFsuite takes them for.
    """
    missing = np.isnan(weights)
    complete = weights[~missing.any(axis=1)]
    if len(complete) < 2:
        complete = np.nan_to_num(weights[~missing.all(axis=1)], nan=0.0)
    return complete.astype(np.float64)


def noisy_fill(
    table: FittedTable,
    *,
    stream: SecretStream,
    noise: float = NOISE,
    scales: Doubles | None = None,
) -> Floats:
    """Returns a table that holds no learned number as it is, shape [rows, labels].

    `noise` is in spreads of the genuine rows. With `scales` (shape [rows], from public knowledge
    alone), rows get noise in units of their own scale, so that a row that public text
    does not use stays small, made-up or not. Copies are then taken of the rows of every
    label's items alike: words of labelled items are a small part of all words, and would stand out
    among copies that are taken of all words alike. Where there are at least two labels, the mean of
    each row is taken away, which changes no comparison between them.
    """
    if not noise > 0:
        raise ValueError(f"noise is {noise}; expected a number above 0. It hides the weights.")
    learned = table.genuine
    rows = np.nan_to_num(table.weights[learned].astype(np.float64), nan=0.0)
    if table.weights.shape[1] > 1:
        rows -= rows.mean(axis=1, keepdims=True)
    if scales is None:
        return _spread_out(rows, np.flatnonzero(learned), len(learned), noise, stream)
    rows /= scales[learned][:, None]
    weights = _copy_weights(table.seen[learned])
    made = _spread_out(rows, np.flatnonzero(learned), len(learned), noise, stream, weights)
    made *= scales[:, None].astype(np.float32)
    return made


def _copy_weights(seen: npt.NDArray[np.bool_]) -> Doubles:
    """Returns how often to copy each row: every label's alike, and as much as each other's."""
    counts = seen.sum(axis=0)
    shares = seen[:, counts > 0] / counts[counts > 0]
    return np.asarray(shares.mean(axis=1), dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """A further training of a table that was released."""

    released: Floats  # shape [rows, labels]; the table that is out, complete
    amounts: Floats  # by how much training changed each weight, NaN where it did not

    def __post_init__(self) -> None:
        """Refuses amounts that do not fit the table."""
        if self.released.shape != self.amounts.shape or not np.isfinite(self.released).all():
            raise ValueError(
                f"The released table has the shape {self.released.shape} and the amounts "
                f"{self.amounts.shape}; expected the same, and no weight missing in the table."
            )


def updated_paper_fill(
    update: Update, *, stream: SecretStream, family: str = "joint-normal"
) -> Floats:
    """Returns the next table to release, as in section 4.5 of the paper.

    The distribution has twice as many columns: the weight as it is out, and the amount, which
    independent normals would not keep together. It is fitted to the rows that training changed in
    every column; all other amounts are drawn given the weights.
    """
    columns = update.released.shape[1]
    distribution = distributions.fitted(family, changed_rows(update), stream)
    amounts = distribution.complete(_both(update), stream)[:, columns:]
    return (update.released + amounts).astype(np.float32)


def changed_rows(update: Update) -> Doubles:
    """Returns weights and amounts of rows that changed in every column, shape [rows, 2 labels].

    To these the distribution of an update is fitted, and `term_cost.joint_divergences` of them is
    what it adds to the cost of a term.
    """
    return _both(update)[~np.isnan(update.amounts).any(axis=1)]


def _both(update: Update) -> Doubles:
    return np.concatenate([update.released, update.amounts], axis=1).astype(np.float64)


def updated_noisy_fill(update: Update, *, stream: SecretStream, noise: float = NOISE) -> Floats:
    """Returns the next table to release, whose amounts are filled like the rows of a first one."""
    amounts = FittedTable(
        weights=update.amounts,
        seen=~np.isnan(update.amounts),
        transitions=np.zeros((0, 0), np.float32),
        labels=(),
    )
    return update.released + noisy_fill(amounts, stream=stream, noise=noise)


def _require_learned(count: int) -> None:
    if count < 2:
        raise InputError(
            f"{count} rows of the table were learned; filling needs at least 2. Train on more "
            "documents.",
            code="TOO_FEW_ROWS",
        )


def _spread_out(
    genuine: Doubles,
    places: npt.NDArray[np.intp],
    count: int,
    noise: float,
    stream: SecretStream,
    weights: Doubles | None = None,
) -> Floats:
    """Returns the genuine rows at their places, copies of them everywhere else, all with noise."""
    _require_learned(len(genuine))
    if weights is None:
        source = stream.choices(count, len(genuine))
    else:
        source = stream.draws(count, weights)
    source[places] = np.arange(len(genuine))
    covariance = np.cov(genuine, rowvar=False, ddof=0).reshape(genuine.shape[1], -1)
    values, vectors = np.linalg.eigh(covariance)
    root = noise * vectors * np.sqrt(np.maximum(values, 0.0))
    made = np.empty((count, genuine.shape[1]), dtype=np.float32)
    for start in range(0, count, _CHUNK_ROWS):
        part = source[start : start + _CHUNK_ROWS]
        drawn = stream.normals((len(part), genuine.shape[1])) @ root.T
        made[start : start + len(part)] = genuine[part] + drawn
    return made
