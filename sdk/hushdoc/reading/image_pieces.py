"""Long pages, such as receipts, in pieces: an OCR engine that shrinks them would lose lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SLENDER = 4
"""Pages so many times as long as wide, or as wide as tall, are cut."""

NARROW = 200
"""Narrower pages (pixels) stay whole: an engine makes each piece several times as large first."""

QUIET_PART = 0.2
"""The last part of a piece, in which the row of least ink is looked for: no line is cut there."""


def pieces(image: Image.Image, longest: int) -> Iterator[tuple[tuple[int, int], Image.Image]]:
    """Yields the parts of an image and where each begins: (left, top) in pixels.

    One part where the image is not slender, or not longer than `longest` pixels, or narrow.
    """
    short, long = sorted(image.size)
    if long <= max(longest, SLENDER * short) or short < NARROW:
        yield (0, 0), image
        return
    upright = image.height > image.width
    start, end = 0, max(image.size)
    while start < end:
        stop = end if end - start <= longest else _quiet(image, start, start + longest, upright)
        if upright:
            yield (0, start), image.crop((0, start, image.width, stop))
        else:
            yield (start, 0), image.crop((start, 0, stop, image.height))
        start = stop


def _quiet(image: Image.Image, start: int, stop: int, upright: bool) -> int:
    """Returns the last row or column of least contrast before `stop`."""
    import numpy as np

    first = stop - round(QUIET_PART * (stop - start))
    box = (0, first, image.width, stop) if upright else (first, 0, stop, image.height)
    grey = np.asarray(image.crop(box).convert("L"))
    contrast = np.ptp(grey, axis=1 if upright else 0)
    return stop - int(np.argmin(contrast[::-1]))
