"""Image files: their pages as upright RGB pictures, refused before decoding where too large.

Pillow is imported when a picture is opened. Its decoders raise many kinds of exceptions on damaged
files; here each of them becomes an UnsupportedFormatError.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hushdoc.errors import (
    HushdocError,
    LimitExceededError,
    MissingExtraError,
    UnsupportedFormatError,
)
from hushdoc.reading.drafting import too_many_pages
from hushdoc.reading_terms import ReadingLimits

if TYPE_CHECKING:
    from PIL import Image

READER = "image"
DECODERS = ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP")
"""No other decoder of Pillow ever sees a file, but that of MPO: several JPEG in one."""

ANIMATED = ("PNG", "GIF", "WEBP")
"""Formats in which several pictures are an animation; in TIFF they are pages."""

_SUBFILE_TYPE = 254
_PAPER = (255, 255, 255)


def pictures(
    content: bytes, *, id: str, limits: ReadingLimits, extra: str = "ocr"
) -> Iterator[tuple[int, Image.Image]]:
    """Yields each page's number in the file and its picture: upright, RGB, on white paper.

    Args:
        content: The whole file.
        id: The document's id, for messages.
        limits: How much is read.
        extra: The extra to install where Pillow is missing.

    Raises:
        UnsupportedFormatError: The file is damaged, animated, or no image.
        LimitExceededError: It has too many pages or pixels; told before any is decoded.
        MissingExtraError: Pillow is not installed.
    """
    with _opened(content, id, extra) as image:
        num_frames = _num_frames(image, id, limits)
        for frame in range(num_frames):
            if num_frames > 1:
                image.seek(frame)
                # Scanners put thumbnails beside their pages.
                if int(getattr(image, "tag_v2", {}).get(_SUBFILE_TYPE, 0)) & 1:
                    continue
            _require_size(image, id, frame, limits)
            yield frame, _upright(image)


def picture(content: bytes, frame: int, *, id: str, limits: ReadingLimits) -> Image.Image:
    """Returns one page's picture: upright, RGB, on white paper.

    Raises:
        UnsupportedFormatError: The file is damaged or no image, or has no such page.
        LimitExceededError: It has too many pixels.
        MissingExtraError: Pillow is not installed.
    """
    with _opened(content, id, "cpu") as image:
        if frame:
            image.seek(frame)
        _require_size(image, id, frame, limits)
        return _upright(image)


@contextmanager
def _opened(content: bytes, id: str, extra: str) -> Iterator[Image.Image]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("PIL", extra) from error
    try:
        with Image.open(io.BytesIO(content), formats=DECODERS) as image:
            yield image
    except (HushdocError, GeneratorExit):
        raise
    except Image.DecompressionBombError as error:
        raise LimitExceededError(
            f"'{id}' has far too many pixels: {error}. Pass a smaller image."
        ) from error
    except Exception as error:
        raise UnsupportedFormatError(
            f"The image '{id}' can't be read: {type(error).__name__}: {str(error)[:200]}. Expected "
            f"a whole file of one of the formats {', '.join(DECODERS)}; save it again."
        ) from error


def _num_frames(image: Image.Image, id: str, limits: ReadingLimits) -> int:
    count = int(getattr(image, "n_frames", 1))
    if image.format == "MPO":  # a photo with its preview or depth
        return 1
    if count > 1 and image.format in ANIMATED:
        raise UnsupportedFormatError(
            f"The image '{id}' is animated: it has {count} pictures. Save the page that is meant "
            "as an image of its own, or all of them as TIFF or PDF."
        )
    if count > limits.max_pages:
        raise too_many_pages(id, count, limits)
    return count


def _require_size(image: Image.Image, id: str, frame: int, limits: ReadingLimits) -> None:
    if image.width * image.height > limits.max_pixels:
        raise LimitExceededError(
            f"Page {frame} of '{id}' is {image.width} x {image.height} pixels; at most "
            f"{limits.max_pixels} in all are read. Pass a smaller image, or raise "
            "ReadingLimits.max_pixels."
        )


def _upright(image: Image.Image) -> Image.Image:
    """Returns the picture as it is looked at, in 8-bit RGB; what is transparent shows paper."""
    from PIL import Image, ImageOps

    image.load()
    turned = ImageOps.exif_transpose(image)
    if turned.mode.startswith("I") or turned.mode == "F":
        turned = _eight_bits(turned)
    if turned.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in turned.info:
        layer = turned.convert("RGBA")
        paper = Image.new("RGB", layer.size, _PAPER)
        paper.paste(layer, (0, 0), layer)
        return paper
    # A new picture carries none of the file's metadata, nor the file.
    plain = turned.convert("RGB")
    plain.info = {}
    return plain


def _eight_bits(image: Image.Image) -> Image.Image:
    """Returns a grey picture of 16 bits or more with 8; Pillow itself would cut, not scale."""
    import numpy as np
    from PIL import Image

    values = np.asarray(image, dtype=np.float64)
    highest = 255.0 if values.max(initial=0.0) <= 255 and image.mode == "I" else 65535.0
    if not np.isfinite(values).all() or values.min(initial=0.0) < 0 or values.max() > highest:
        raise ValueError("its grey values are not from 0 to 65535")
    return Image.fromarray(np.round(values * (255.0 / highest)).astype(np.uint8))
