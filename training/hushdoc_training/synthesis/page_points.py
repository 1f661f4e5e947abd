"""Page images as points, by a linear function that is fitted to public pages alone.

A page's point says how dark each of 16 x 16 cells is, along the directions in which public pages
differ most. It depends on no other page that votes, so one document more casts one vote more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Squares = npt.NDArray[np.float32]

VERSION = 1
"""Whoever changes anything here raises it."""

CELLS = 16
"""Cells across a page and down; sides of squares are multiples of it."""

DIRECTIONS = 64
"""Most numbers of a point."""

_WHITENED = 0.5
"""Power of a direction's deviation that it is divided by: 0 as it is, 1 all alike. This and
DIRECTIONS were chosen on public classes of pages that stood in for private ones."""

_SPREAD, _MOVED, _PALEST, _DARKEST = 1e-6, 1 / 8, 0.4, 1.2


@dataclass(frozen=True, kw_only=True, eq=False)
class PagePoints:
    """The function from a page to its point.

    Attributes:
        centre: Mean of the public pages' cells, shape [CELLS ** 2].
        directions: What cells less the centre are multiplied by, shape [CELLS ** 2, D].
    """

    centre: Floats
    directions: Floats

    @classmethod
    def fitted(cls, public: Squares) -> PagePoints:
        """Returns the function of public squares, shape [M, side, side], black at -1, white at 1.

        Half of these are points of a norm of 1, as is all that is farther from the centre.
        """
        cells = _cells(public)
        centre = cells.mean(axis=0)
        _, lengths, axes = np.linalg.svd(cells - centre, full_matrices=False)
        deviations = lengths / np.sqrt(len(cells))
        kept = min(DIRECTIONS, int((deviations > _SPREAD).sum()))
        directions = axes[:kept].T / deviations[:kept] ** _WHITENED
        norms = np.linalg.norm((cells - centre) @ directions, axis=1)
        return cls(centre=centre, directions=directions / max(float(np.median(norms)), _SPREAD))

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return self.directions.shape[1]

    def __call__(self, squares: Squares) -> Floats:
        """Returns the points of squares, shape [N, D], each of a norm of at most 1."""
        points = (_cells(squares) - self.centre) @ self.directions
        return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))


def varied(square: Squares, rng: np.random.Generator) -> Squares:
    """Returns a public square shifted by up to an eighth, with white around it, paler or darker."""
    side = len(square)
    most = round(side * _MOVED)
    down, right = rng.integers(-most, most + 1, 2)
    padded = np.pad(square, most, constant_values=1.0)
    moved = padded[most - down : most - down + side, most - right : most - right + side]
    ink = np.float32(rng.uniform(_PALEST, _DARKEST))
    return np.clip(1 - (1 - moved) * ink, -1, 1)


def _cells(squares: Squares) -> Floats:
    count, side, _ = squares.shape
    step = side // CELLS
    parts = squares.astype(np.float64).reshape(count, CELLS, step, CELLS, step)
    means: Floats = parts.mean(axis=(2, 4)).reshape(count, CELLS**2)
    return means
