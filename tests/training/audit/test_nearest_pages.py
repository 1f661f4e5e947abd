"""Nearest pages: known answers, a set that copies, one that does not, and groups of two sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hushdoc_training.audit import nearest_pages


def test_nearest_points_and_the_share_that_is_nearer_to_private_ones() -> None:
    points = np.array([[0.0], [10.0], [20.0], [30.0]])
    private, held_out = np.array([[1.0], [13.0]]), np.array([[2.0], [22.0]])
    found = nearest_pages.compared(points, private, held_out)
    assert found.private.places.tolist() == [0, 1, 1, 1]
    assert found.private.distances.tolist() == [1.0, 3.0, 7.0, 17.0]
    assert found.held_out.distances.tolist() == [2.0, 8.0, 2.0, 8.0]
    assert found.nearer_to_private == 0.5
    assert found.closest(2) == [1, 0]
    assert found.p_value == pytest.approx(stats.binom.sf(1, 4, 0.5))


def test_copies_are_seen_and_strangers_are_not() -> None:
    rng = np.random.default_rng(1)
    private, held_out = rng.normal(size=(2, 60, 5))
    copied = nearest_pages.compared(private + 0.01 * rng.normal(size=(60, 5)), private, held_out)
    assert copied.nearer_to_private == 1.0
    assert copied.p_value < 1e-12
    strange = nearest_pages.compared(rng.normal(size=(200, 5)), private, held_out)
    assert 0.35 < strange.nearer_to_private < 0.65
    alike = nearest_pages.compared(held_out, private, private)
    assert (alike.nearer_to_private, alike.p_value) == (0.5, 1.0)


def test_groups_of_two_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="2 private and 3 held-out"):
        nearest_pages.compared(np.zeros((1, 2)), np.zeros((2, 2)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="0 documents"):
        nearest_pages.compared(np.zeros((0, 2)), np.zeros((2, 2)), np.zeros((2, 2)))
