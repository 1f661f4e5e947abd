"""A plain image for an invented page, so that models that read images can be asked too."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def plain_image(folder: Path, *, width: int, height: int) -> Path | None:
    """Returns the file of a white image, or None where pillow is not installed.

    Args:
        folder: Where it is written.
        width: In pixels.
        height: In pixels.
    """
    path = folder / f"{width}x{height}.png"
    if not path.exists():
        if importlib.util.find_spec("PIL") is None:
            return None
        from PIL import Image

        Image.new("L", (width, height), "white").save(path)
    return path
