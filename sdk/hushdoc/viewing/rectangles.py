"""Rectangles, many at once: which pixels they fill, and which of them others hide.

What a page holds is its author's choice: neither takes time for each pair of two rectangles that
stand apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hushdoc.document.page import Box

Array = np.ndarray[Any, np.dtype[Any]]

_TOGETHER = 256
"""Boxes near one another that are compared at once with the covers near them."""

_BLOCK = 1024
"""Covers that are compared at once, so that memory stays small."""

_CAREFUL = 0.999
"""What is compared is a little more than needs to be, whatever is rounded."""


def filled(width: int, height: int, places: Sequence[tuple[int, int, int, int]]) -> Array:
    """Returns for each pixel, row by row, whether one of (x0, y0, x1, y1), ends left out, is on it.

    Example:
        >>> filled(3, 2, [(1, 0, 9, 1)]).tolist()
        [[False, True, True], [False, False, False]]
    """
    changes = np.zeros((height + 1, width + 1), dtype=np.int32)
    corners = np.array(places, dtype=np.int64).reshape(-1, 4)
    x0, y0, x1, y1 = corners.clip(0, (width, height, width, height)).T
    is_any = (x0 < x1) & (y0 < y1)
    for x, y, change in ((x0, y0, 1), (x1, y0, -1), (x0, y1, -1), (x1, y1, 1)):
        np.add.at(changes, (y[is_any], x[is_any]), change)
    for axis in (0, 1):
        np.cumsum(changes, axis=axis, out=changes)
    return changes[:height, :width] > 0


def hidden(boxes: Sequence[Box], covers: Sequence[Box], share: float) -> list[bool]:
    """Returns of each box whether one of the covers hides more than such a share of it.

    Example:
        >>> hidden([Box(x0=0, y0=0, x1=8, y1=2)], [Box(x0=4, y0=0, x1=9, y1=2)], 0.4)
        [True]
    """
    found = np.zeros(len(boxes), dtype=bool)
    if not covers:
        return [False] * len(boxes)
    every, over = _array(boxes), _array(covers)
    # Boxes of about one size go row by row: those that are taken together are near one another.
    sizes = np.maximum(0, np.frexp(every[:, 2:] - every[:, :2])[1])
    rows = every[:, 1] // 2.0 ** sizes[:, 1]
    order = np.lexsort((every[:, 0], rows, sizes[:, 0], sizes[:, 1]))
    for start in range(0, len(order), _TOGETHER):
        chosen = order[start : start + _TOGETHER]
        some = every[chosen]
        # Of a box that is hidden enough, as much of each side is; all others need no comparison.
        least = _CAREFUL * share * (some[:, 2:] - some[:, :2])
        low, high = (some[:, :2] + least).min(axis=0), (some[:, 2:] - least).max(axis=0)
        near = over[(over[:, :2] <= high).all(axis=1) & (over[:, 2:] >= low).all(axis=1)]
        near = near[(near[:, 2:] - near[:, :2] >= least.min(axis=0)).all(axis=1)]
        for first in range(0, len(near), _BLOCK):
            left = np.flatnonzero(~found[chosen])
            if not len(left):
                break
            shares = _shares(some[left, None], near[None, first : first + _BLOCK])
            found[chosen[left]] = (shares > share).any(axis=1)
    hides: list[bool] = found.tolist()
    return hides


def _array(boxes: Sequence[Box]) -> Array:
    return np.array([box.to_list() for box in boxes], dtype=np.float64).reshape(-1, 4)


def _shares(boxes: Array, covers: Array) -> Array:
    """Returns which share of each box each cover hides; a line or point counts as whole."""
    low, high, first, last = boxes[..., :2], boxes[..., 2:], covers[..., :2], covers[..., 2:]
    shared = np.maximum(0.0, np.minimum(high, last) - np.maximum(low, first))
    is_point = low == high
    of_line = shared / np.where(is_point, 1.0, high - low)
    shares: Array = np.where(is_point, (first <= low) & (low <= last), of_line)
    return shares[..., 0] * shares[..., 1]
