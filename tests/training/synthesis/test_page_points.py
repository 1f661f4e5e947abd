"""Points of page images: their norm, what they are fitted to, and pages that are moved."""

from __future__ import annotations

import numpy as np
import pytest

from hushdoc_training.synthesis import page_points
from hushdoc_training.synthesis.page_points import CELLS, PagePoints


def squares(count: int, *, seed: int, side: int = 32) -> page_points.Squares:
    """Returns random squares that differ most from above to below."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0, 0.5, (count, 1, 1)) * np.linspace(-1, 1, side)[None, :, None]
    noise = rng.normal(0, 0.05, (count, side, side))
    return np.clip(slopes + noise, -1, 1).astype(np.float32)


def test_points_are_cells_along_the_directions_of_public_pages() -> None:
    public, page = squares(20, seed=1), squares(1, seed=2)[0]
    points = PagePoints.fitted(public)

    def cells(square: page_points.Squares) -> np.ndarray:
        made = [square[2 * y : 2 * y + 2, 2 * x : 2 * x + 2].mean() for y in range(16)
                for x in range(16)]  # fmt: skip
        return np.array(made, dtype=np.float64)

    every = np.array([cells(one) for one in public])
    values, axes = np.linalg.eigh(np.cov(every, rowvar=False, ddof=0))
    order = np.argsort(-values)[:19]  # twenty pages differ along nineteen directions
    assert points.size == 19
    found = (every - every.mean(0)) @ (axes[:, order] / values[order] ** 0.25)
    norm = np.median(np.linalg.norm(found, axis=1))
    expected = (cells(page) - every.mean(0)) @ (axes[:, order] / values[order] ** 0.25) / norm
    expected /= max(1.0, float(np.linalg.norm(expected)))
    # A direction may point either way.
    np.testing.assert_allclose(np.abs(points(page[None])[0]), np.abs(expected), atol=2e-5)


def test_a_point_is_of_its_page_alone_and_at_most_one_long() -> None:
    points = PagePoints.fitted(squares(20, seed=1))
    pages = squares(6, seed=3) * 2
    together = points(pages)
    assert np.linalg.norm(together, axis=1).max() <= 1 + 1e-12
    for page, point in zip(pages, together, strict=True):
        np.testing.assert_allclose(points(page[None])[0], point, atol=1e-12)


def test_public_pages_that_are_all_alike_have_no_direction() -> None:
    points = PagePoints.fitted(np.ones((3, CELLS, CELLS), dtype=np.float32))
    assert points.size == 0
    assert points(squares(2, seed=1)).shape == (2, 0)


def test_no_more_directions_than_are_said() -> None:
    rng = np.random.default_rng(0)
    public = rng.uniform(-1, 1, (100, CELLS, CELLS)).astype(np.float32)
    assert PagePoints.fitted(public).size == page_points.DIRECTIONS


@pytest.mark.parametrize("seed", range(5))
def test_a_moved_page_is_the_page_elsewhere_with_white_around_it(seed: int) -> None:
    page = np.ones((32, 32), dtype=np.float32)
    page[16, 16] = -1.0
    moved = page_points.varied(page, np.random.default_rng(seed))
    ((down, right),) = np.argwhere(moved < 1)
    assert abs(down - 16) <= 4
    assert abs(right - 16) <= 4
    assert -1 <= moved[down, right] <= 1 - 2 * 0.4 + 1e-6
    again = page_points.varied(page, np.random.default_rng(seed))
    np.testing.assert_array_equal(moved, again)
