"""Layouts as masks: where text stands on a page, and nothing of what it says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

TEXT, BACKGROUND = -1.0, 1.0
CELL = 4
"""Pixels of the side of what `of_ink` looks at together."""

_AROUND = 2  # cells on each side that paper is looked for in
_DARKER = 0.2  # of the range from black to white


def of_boxes(boxes: npt.NDArray[np.float64], size: int) -> Floats:
    """Returns the mask of boxes of lines, shape [size, size], from (DP-DocLDM, section 3.2).

    Args:
        boxes: x0, y0, x1, y1 in shares of the page's width and height, shape [N, 4].
        size: Pixels of the mask's side.
    """
    mask = np.full((size, size), BACKGROUND, dtype=np.float32)
    for x0, y0, x1, y1 in np.clip(boxes, 0, 1) * size:
        # A line thinner than a pixel still has one.
        across = slice(int(x0), max(int(np.ceil(x1)), int(x0) + 1))
        mask[int(y0) : max(int(round(y1)), int(y0) + 1), across] = TEXT
    return mask


def of_ink(shades: Floats) -> Floats:
    """Returns the mask of what is darker than the paper around it, for pages without boxes.

    Args:
        shades: A page from -1 (black) to 1 (white), shape [CELL * size, CELL * size].

    Returns:
        The mask, shape [size, size].
    """
    size = len(shades) // CELL
    cells = shades.reshape(size, CELL, size, CELL).mean((1, 3))
    padded = np.pad(cells, _AROUND, mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, (2 * _AROUND + 1,) * 2)
    paper = around.max((2, 3))
    return np.where(paper - cells > 2 * _DARKER, TEXT, BACKGROUND).astype(np.float32)


def has_text(mask: Floats) -> bool:
    """Returns whether any text stands on a page of this mask."""
    return bool((mask == TEXT).any())
