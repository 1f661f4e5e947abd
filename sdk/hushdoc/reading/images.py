"""Image files: their pages as upright RGB images, refused before decoding where too large.

Pillow is imported when an image is opened. Its decoders raise many types of exceptions on damaged
files; here each of them becomes an UnsupportedFormatError.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import printable
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import HushdocError, LimitExceededError, UnsupportedFormatError, needs_extra
from hushdoc.reading.drafting import too_many_pages

if TYPE_CHECKING:
    import numpy.typing as npt
    from PIL import Image

READER = "image"
DECODERS = ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP")
"""No other decoder of Pillow ever sees a file, but that of MPO: several JPEG in one."""

ANIMATED = ("PNG", "GIF", "WEBP")
"""Formats in which several images are an animation; in TIFF they are pages."""

MIN_SIDE = 3
"""Images with a shorter side (pixels) hold no text, and OCR engines fail on them."""

MAX_SLENDER = 25
"""Longer images than so many times their width are no pages: till receipts are up to 20 times as
long as wide, and OCR engines take minutes for others or find nothing."""

_SUBFILE_TYPE = 254
_NO_PAGE = 0b101
_OLD_SUBFILE_TYPE, _OLD_REDUCED = 255, 2
"""TIFF 6.0, sections 8 (pages 36 and 40): a reduced image (bit 0), a mask (bit 2)."""

_ORIENTATION = 0x0112
_TURNED = (2, 3, 4, 5, 6, 7, 8)
_SIDEWAYS = (5, 6, 7, 8)
"""EXIF orientations that are looked at after a quarter turn."""

_PNG_ORIENTATION_KEYS = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")

PAPER = (255, 255, 255)
_EIGHT_BITS, _SIXTEEN_BITS = 255, 65535
_STRIPE_PIXELS = 2**20


def frames(content: bytes, *, id: str, limits: ReadingLimits) -> Iterator[tuple[int, Image.Image]]:
    """Yields each page's number in the file and its image: upright, RGB, on white paper."""
    with _opened(content, id, "ocr") as image:
        for frame in _pages(image, id, limits):
            yield frame, _upright(image)


def frame_sizes(
    content: bytes, *, id: str, limits: ReadingLimits
) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yields each page's number in the file and its upright size, with the refusals of `frames`."""
    with _opened(content, id, "cpu") as image:
        for frame in _pages(image, id, limits):
            yield frame, _upright_size(image, content)


def _upright_size(image: Image.Image, content: bytes) -> tuple[int, int]:
    if hasattr(image, "_tile_size"):  # a TIFF file, whose size is that of the upright image
        return image.size
    # Pillow decodes a PNG file in search of an orientation, which may come after its pixels.
    if image.format == "PNG" and not any(mark in content for mark in _PNG_ORIENTATION_KEYS):
        return image.size
    sideways = image.getexif().get(_ORIENTATION) in _SIDEWAYS
    return (image.height, image.width) if sideways else image.size


def _pages(image: Image.Image, id: str, limits: ReadingLimits) -> Iterator[int]:
    """Moves an open file to each of its pages in turn, and yields the page's number in the file."""
    num_frames = _num_frames(image, id, limits)
    if num_frames == 1:
        numbers = [0]
    else:
        numbers = [frame for frame in range(num_frames) if _is_page(image, frame)] or [0]
    for frame in numbers:
        if num_frames > 1:
            image.seek(frame)
        _require_size(image, id, frame, limits)
        yield frame


def _is_page(image: Image.Image, frame: int) -> bool:
    """Returns whether a TIFF file's image is neither a thumbnail nor a mask of transparency."""
    image.seek(frame)
    tags = getattr(image, "tag_v2", {})
    reduced = tags.get(_OLD_SUBFILE_TYPE) == _OLD_REDUCED
    return not reduced and not int(tags.get(_SUBFILE_TYPE, 0)) & _NO_PAGE


def frame_image(content: bytes, frame: int, *, id: str, limits: ReadingLimits) -> Image.Image:
    """Returns one page's image as `frames` does, with the same refusals."""
    with _opened(content, id, "cpu") as image:
        if frame:
            image.seek(frame)
        _require_size(image, id, frame, limits)
        return _upright(image)


def too_slender(size: tuple[int, int]) -> bool:
    """Returns whether an image that could hold text is no page by its sides (pixels)."""
    short, long = sorted(size)
    return short >= MIN_SIDE and long > MAX_SLENDER * short


def no_longer(image: Image.Image, longest: int) -> Image.Image:
    """Returns an image scaled down so that no side is longer than `longest` pixels."""
    if max(image.size) <= longest:
        return image
    scale = longest / max(image.size)
    return image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))


@contextmanager
def _opened(content: bytes, id: str, extra: str) -> Iterator[Image.Image]:
    with needs_extra("PIL", extra):
        from PIL import Image
    try:
        with _decoded(content) as image:
            yield image
    except (HushdocError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise LimitExceededError(
            f"'{id}' has far too many pixels for its decoder: {error} Pass a smaller image, or "
            "one in PNG or JPEG."
        ) from error
    except Exception as error:
        raise UnsupportedFormatError(
            f"The image '{id}' can't be read: {type(error).__name__}: "
            f"{printable(error, limit=200)}. Expected a whole file of one of "
            f"the formats {', '.join(DECODERS)}; save it again."
        ) from error


def _decoded(content: bytes) -> Image.Image:
    """Returns the image in a file, whose pixels are not decoded yet.

    `Image.open` would compare its size with a limit of Pillow's own that is the whole process's:
    ReadingLimits.max_pixels alone decides here, and the host's limit stays as it is.
    """
    from PIL import Image, UnidentifiedImageError

    Image.preinit()  # the commonest decoders; all others take a tenth of a second to import
    for name in DECODERS:
        if name not in Image.OPEN:
            Image.init()
        decoder, accepts = Image.OPEN[name]
        # What accepts may say in words why a decoder is not there.
        if accepts is None or accepts(content[:16]) is True:
            return decoder(io.BytesIO(content), "")
    raise UnidentifiedImageError("it is in none of the formats that are read")


def _num_frames(image: Image.Image, id: str, limits: ReadingLimits) -> int:
    if image.format == "TIFF":
        return _num_tiff_pages(image, id, limits)
    count = int(getattr(image, "n_frames", 1))
    if image.format == "MPO":  # a photo with its preview or depth
        return 1
    if count > 1 and image.format in ANIMATED:
        raise UnsupportedFormatError(
            f"The image '{id}' is animated: it has {count} images. Save the page that is meant "
            "as an image of its own, or all of them as TIFF or PDF."
        )
    if count > limits.max_pages:
        raise too_many_pages(id, count, limits)
    return count


def _num_tiff_pages(image: Image.Image, id: str, limits: ReadingLimits) -> int:
    """Returns how many images a TIFF file has; Pillow's count compares each with all others."""
    for count in range(1, limits.max_pages + 1):
        try:
            image.seek(count)
        except EOFError:
            image.seek(0)
            return count
    raise too_many_pages(id, None, limits)


def _require_size(image: Image.Image, id: str, frame: int, limits: ReadingLimits) -> None:
    if image.width * image.height > limits.max_pixels:
        raise LimitExceededError(
            f"Page {frame} of '{id}' is {image.width} x {image.height} pixels; at most "
            f"{limits.max_pixels} in all are read. Pass a smaller image, or raise "
            "ReadingLimits.max_pixels."
        )


def _upright(image: Image.Image) -> Image.Image:
    """Returns the image as it is viewed, in 8-bit RGB, transparent parts white."""
    from PIL import Image, ImageOps

    _load(image)
    # Pillow makes a copy of what need not be turned, and of RGBA in RGBA: 320 MB of the largest.
    is_turned = image.getexif().get(_ORIENTATION) in _TURNED
    turned = ImageOps.exif_transpose(image) if is_turned else image
    if turned.mode.startswith("I") or turned.mode == "F":
        turned = _eight_bits(turned)
    if turned.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in turned.info:
        layer = turned if turned.mode == "RGBA" else turned.convert("RGBA")
        paper = Image.new("RGB", layer.size, PAPER)
        paper.paste(layer, (0, 0), layer)
        return paper
    # A new image carries none of the file's metadata, nor the file.
    plain = turned.convert("RGB")
    plain.info = {}
    return plain


def _load(image: Image.Image) -> None:
    """Decodes an image whose size was compared with the limits."""
    from PIL import Image

    # Pillow compares the size of TIFF pages with its own limit once more, where it gets the memory
    # for them: it is given that memory.
    stored = getattr(image, "_tile_size", None)
    if stored is not None and getattr(image, "tile", None):
        image.im = Image.new(image.mode, stored, None).im
    image.load()


def _eight_bits(image: Image.Image) -> Image.Image:
    """Returns a grey image of 16 bits or more with 8; Pillow itself would cut, not scale.

    Stripe by stripe: a page of a hundred megapixels as floating point takes gigabytes.
    """
    import numpy as np
    from PIL import Image

    highest = 0.0
    for _, stripe in _stripes(image):
        if not (stripe.min() >= 0 and stripe.max() <= _SIXTEEN_BITS):  # nor where one is NaN
            raise ValueError("its grey values are not from 0 to 65535")
        highest = max(highest, float(stripe.max()))
    steps = 1 if image.mode == "I" and highest <= _EIGHT_BITS else _SIXTEEN_BITS // _EIGHT_BITS
    grey = np.empty((image.height, image.width), np.uint8)
    for top, stripe in _stripes(image):
        grey[top : top + len(stripe)] = np.rint(stripe / np.float32(steps))
    return Image.fromarray(grey)


def _stripes(image: Image.Image) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yields parts of an image that follow each other down the page, and where each begins."""
    import numpy as np

    rows = max(1, _STRIPE_PIXELS // image.width)
    for top in range(0, image.height, rows):
        end = min(image.height, top + rows)
        yield top, np.asarray(image.crop((0, top, image.width, end)))
