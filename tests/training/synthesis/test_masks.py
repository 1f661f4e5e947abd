"""Masks of layouts: where text stands, of boxes and of ink."""

from __future__ import annotations

import numpy as np
import pytest

from hushdoc_training.synthesis import masks
from hushdoc_training.synthesis.masks import BACKGROUND, CELL, TEXT


def test_boxes_are_where_they_are() -> None:
    mask = masks.of_boxes(np.array([[0.25, 0.5, 0.75, 0.75]]), 8)
    assert mask.shape == (8, 8)
    assert (mask[4:6, 2:6] == TEXT).all()
    assert (mask == TEXT).sum() == 8
    assert masks.has_text(mask)


@pytest.mark.parametrize(
    ("box", "pixels"),
    [
        ([0.5, 0.5, 0.5, 0.5], 1),  # thinner than a pixel
        ([-1.0, -1.0, 2.0, 2.0], 64),  # beyond the page
        ([0.0, 0.9, 1.0, 1.0], 8),
    ],
)
def test_thin_boxes_and_those_beyond_the_page_stay_on_it(box: list[float], pixels: int) -> None:
    assert (masks.of_boxes(np.array([box]), 8) == TEXT).sum() == pixels


def test_a_page_without_boxes_or_ink_has_no_text() -> None:
    assert not masks.has_text(masks.of_boxes(np.zeros((0, 4)), 8))
    for shade in (-1.0, 0.3, 1.0):
        assert not masks.has_text(masks.of_ink(np.full((32, 32), shade, dtype=np.float32)))


@pytest.mark.parametrize("paper", [1.0, 0.2])
def test_ink_is_darker_than_the_paper_around_it(paper: float) -> None:
    shades = np.full((8 * CELL, 8 * CELL), paper, dtype=np.float32)
    shades += np.linspace(-0.2, 0, 8 * CELL, dtype=np.float32)  # light from one side
    shades[3 * CELL : 4 * CELL, CELL : 4 * CELL] -= 0.8
    mask = masks.of_ink(shades)
    assert (mask[3, 1:4] == TEXT).all()
    assert (mask == BACKGROUND).sum() == 61
