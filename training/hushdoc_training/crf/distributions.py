"""Distributions fitted to the complete rows of a table, from which missing weights are drawn.

Every distribution here is a mixture of normals, so that drawing whole rows and drawing the missing
part of a row given its other weights are one piece of code: independent normals and a joint normal
have one part, a Gaussian mixture a few, a kernel density estimate one for each row it remembers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc.errors import InputError, needs_extra
from hushdoc_training.crf.linear import unconverged
from hushdoc_training.randomness.secret_stream import SecretStream

Floats = npt.NDArray[np.float64]

FAMILIES = ("normals", "joint-normal", "mixture", "kernels")
"""Independent normals as in the paper's case study; one normal for all columns; a Gaussian mixture;
a kernel density estimate."""

MAX_KERNELS = 512
"""Rows that a kernel density estimate remembers."""

MAX_FITTED_ROWS = 50_000
"""Rows that a Gaussian mixture is fitted to; more change it little and cost time."""

_PARTS = 3
"""Normals of a Gaussian mixture."""

_CHUNK_NUMBERS = 1 << 21
"""Numbers held at once while rows are completed."""

_FLOOR = 1e-12
"""Least variance in any direction, as a share of the largest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """A mixture of normals over rows of weights."""

    shares: Floats  # shape [parts]; they add up to 1
    means: Floats  # shape [parts, columns]
    covariances: Floats  # shape [parts, columns, columns], or [1, ...] where all parts share one

    def draw(self, count: int, stream: SecretStream) -> Floats:
        """Returns rows drawn from the distribution, shape [count, columns]."""
        noise = stream.normals((count, self.means.shape[1]))
        chosen = _chosen(np.broadcast_to(self.shares, (1, len(self.shares))), count, stream)
        for part, covariance in enumerate(self.covariances):
            own = slice(None) if len(self.covariances) == 1 else chosen == part
            noise[own] = noise[own] @ _root(covariance).T
        return noise + self.means[chosen]

    def complete(self, rows: Floats, stream: SecretStream) -> Floats:
        """Returns the rows with every NaN drawn, given the row's other weights, if it has any."""
        made = rows.copy()
        gaps = np.isnan(rows)
        empty = gaps.all(axis=1)
        made[empty] = self.draw(int(empty.sum()), stream)
        for missing, places in _patterns(gaps, np.flatnonzero(gaps.any(axis=1) & ~empty)):
            conditional = _Conditional(self, missing)
            step = max(1, _CHUNK_NUMBERS // (len(self.shares) + rows.shape[1] ** 2))
            for start in range(0, len(places), step):
                part = places[start : start + step]
                made[np.ix_(part, missing)] = conditional.draw(rows[part], stream)
        return made


class _Conditional:
    """The distribution of some weights of a row, given the others."""

    def __init__(self, distribution: Mixture, missing: npt.NDArray[np.bool_]) -> None:
        known = ~missing
        self._distribution, self._known, self._missing = distribution, known, missing
        whitenings, gains, roots, logs = [], [], [], []
        for covariance in distribution.covariances:
            whitening, log_determinant = _whitening(covariance[np.ix_(known, known)])
            across = covariance[np.ix_(missing, known)]
            gain = across @ whitening.T @ whitening
            whitenings.append(whitening)
            gains.append(gain)
            roots.append(_root(covariance[np.ix_(missing, missing)] - gain @ across.T))
            logs.append(log_determinant)
        self._whitenings, self._gains = np.array(whitenings), np.array(gains)
        self._roots, self._logs = np.array(roots), np.array(logs)

    def draw(self, rows: Floats, stream: SecretStream) -> Floats:
        """Returns the missing weights of rows."""
        chosen = _chosen(self._shares(rows), len(rows), stream)
        means = self._distribution.means[chosen]
        part = chosen if len(self._gains) > 1 else np.zeros(1, dtype=np.int64)
        off = (rows - means)[:, self._known]
        noise = stream.normals((len(rows), int(self._missing.sum())))
        return (
            means[:, self._missing]
            + np.einsum(
                "rmk,rk->rm", np.broadcast_to(self._gains[part], _for(rows, self._gains)), off
            )
            + np.einsum(
                "rmn,rn->rm", np.broadcast_to(self._roots[part], _for(rows, self._roots)), noise
            )
        )

    def _shares(self, rows: Floats) -> Floats:
        """Returns how likely each part is, given what is known of each row."""
        known = rows[:, self._known]
        distances = np.empty((len(rows), len(self._distribution.shares)))
        for part, mean in enumerate(self._distribution.means[:, self._known]):
            whitening = self._whitenings[part % len(self._whitenings)]
            distances[:, part] = np.square((known - mean) @ whitening.T).sum(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.log(self._distribution.shares) - 0.5 * (distances + self._logs)
        logs -= logs.max(axis=1, keepdims=True)
        shares: Floats = np.exp(logs)
        return shares / shares.sum(axis=1, keepdims=True)


def fitted(family: str, rows: Floats, stream: SecretStream) -> Mixture:
    """Returns a distribution of a family, fitted to at least two rows without gaps.

    The stream chooses the rows of kernels and where the fit of a mixture begins.

    Example:
        >>> distribution = fitted("normals", np.array([[0.0, 1.0], [2.0, 1.0]]), SecretStream())
        >>> distribution.means.tolist(), distribution.covariances.tolist()
        ([[1.0, 1.0]], [[[1.0, 0.0], [0.0, 0.0]]])
    """
    if len(rows) < 2:
        raise InputError(
            f"{len(rows)} rows of the table have a weight for every label; expected at least 2. "
            "Train on more documents, or with fewer labels.",
            code="TOO_FEW_ROWS",
        )
    mean = rows.mean(axis=0, keepdims=True)
    covariance = np.cov(rows, rowvar=False, ddof=0).reshape(1, rows.shape[1], rows.shape[1])
    match family:
        case "normals":
            covariance = np.diag(np.diagonal(covariance[0]))[None]
            return Mixture(shares=np.ones(1), means=mean, covariances=covariance)
        case "joint-normal":
            return Mixture(shares=np.ones(1), means=mean, covariances=covariance)
        case "mixture":
            return _gaussian_mixture(rows, stream)
        case "kernels":
            return _kernels(rows, covariance, stream)
    raise ValueError(f"family is {family!r}; expected one of {', '.join(FAMILIES)}.")


def _gaussian_mixture(rows: Floats, stream: SecretStream) -> Mixture:
    with needs_extra("scikit-learn", "crf"):
        from sklearn.mixture import GaussianMixture
    spread = rows.std(axis=0)
    spread[spread == 0] = 1.0
    chosen = (
        rows[stream.choices(MAX_FITTED_ROWS, len(rows))] if len(rows) > MAX_FITTED_ROWS else rows
    )
    start = int(stream.choices(1, 2**31)[0])
    with unconverged():  # draws need no best fit
        found = GaussianMixture(min(_PARTS, len(chosen)), random_state=start).fit(chosen / spread)
    return Mixture(
        shares=found.weights_,
        means=found.means_ * spread,
        covariances=found.covariances_ * np.outer(spread, spread),
    )


def _kernels(rows: Floats, covariance: Floats, stream: SecretStream) -> Mixture:
    """Returns a normal around each of up to MAX_KERNELS rows, as wide as Scott's rule (1992)."""
    count = min(len(rows), MAX_KERNELS)
    width = len(rows) ** (-1 / (rows.shape[1] + 4))
    chosen = rows if count == len(rows) else rows[stream.choices(count, len(rows))]
    return Mixture(
        shares=np.full(count, 1 / count), means=chosen, covariances=covariance * width**2
    )


def _patterns(
    missing: npt.NDArray[np.bool_], among: npt.NDArray[np.intp]
) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]]:
    """Yields every combination of missing columns and those of the rows that have it."""
    patterns, pattern = np.unique(np.packbits(missing[among], axis=1), axis=0, return_inverse=True)
    for number in range(len(patterns)):
        places = among[pattern.reshape(-1) == number]
        yield missing[places[0]], places


def _chosen(shares: Floats, count: int, stream: SecretStream) -> npt.NDArray[np.int64]:
    """Returns a part for each row, by the shares of all rows or of each."""
    if shares.shape[1] == 1:
        return np.zeros(count, dtype=np.int64)
    edges = np.cumsum(shares, axis=1)
    drawn = stream.uniforms(count)
    if len(edges) == 1:
        found = np.searchsorted(edges[0], drawn)
    else:
        found = (edges < drawn[:, None]).sum(axis=1)
    return np.minimum(found, shares.shape[1] - 1).astype(np.int64)


def _for(rows: Floats, matrices: Floats) -> tuple[int, int, int]:
    return (len(rows), matrices.shape[1], matrices.shape[2])


def _root(covariance: Floats) -> Floats:
    """Returns a matrix whose product with its transpose is the covariance, singular or not."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _whitening(covariance: Floats) -> tuple[Floats, float]:
    """Returns what makes a covariance the unit matrix, and its determinant's logarithm."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, max(values.max() * _FLOOR, 1e-30))
    whitening: Floats = (vectors / np.sqrt(values)).T
    return whitening, math.fsum(np.log(values))
