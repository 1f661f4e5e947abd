"""A page as an image: its image where there is one, else its words written into their boxes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box, Page
from hushdoc.errors import InputError, LimitExceededError, needs_extra

if TYPE_CHECKING:
    from PIL import Image, ImageFont

    from hushdoc.reading.drawing import DrawPage

    Font = ImageFont.ImageFont | ImageFont.FreeTypeFont

MIN_WIDTH = 900
"""Pages narrower than this (pixels) are drawn larger, so that captions can be read, unless that
takes more pixels than may be read."""

SLENDER = 4
"""Of pages so many times as long as wide sizes follow the shorter side: letters would be wider than
the page."""

INK, PAPER, RULE = (45, 45, 45), (255, 255, 255), (205, 205, 205)


@dataclass(frozen=True, kw_only=True)
class View:
    """Page pixels to image pixels."""

    page: Page
    width: int
    height: int

    @property
    def unit(self) -> int:
        """The width of a thin line."""
        return max(2, round(extent(self.width, self.height) / 700))

    @property
    def font_size(self) -> int:
        """The size of captions."""
        return max(12, round(extent(self.width, self.height) / 80))

    def place(self, box: Box, *, margin: int = 0) -> tuple[int, int, int, int]:
        """Returns where a box stands in the image, grown by a margin and kept inside."""
        across, down = self.width / self.page.width, self.height / self.page.height
        return (
            max(0, round(box.x0 * across) - margin),
            max(0, round(box.y0 * down) - margin),
            min(self.width - 1, round(box.x1 * across) + margin),
            min(self.height - 1, round(box.y1 * down) + margin),
        )


def extent(width: int, height: int) -> int:
    """Returns what sizes on an image follow: its longer side, but of slender ones."""
    return min(max(width, height), SLENDER * min(width, height))


def require_pillow() -> None:
    """Raises MissingExtraError unless Pillow is installed."""
    with needs_extra("PIL", "images"):
        import PIL  # noqa: F401


def as_png(image: Image.Image, **settings: Any) -> bytes:
    """Returns an image as the content of a PNG file."""
    stream = io.BytesIO()
    image.save(stream, format="PNG", **settings)
    return stream.getvalue()


def background(
    page: Page, image: Image.Image | Path | str | None, draw: DrawPage | None = None
) -> Image.Image:
    """Returns the given image, else the page's own where its file is there, else a rendition."""
    from PIL import Image

    from hushdoc.reading import page_image

    found = image
    kept = page.image
    if found is None and (kept.is_file() if isinstance(kept, Path) else kept is not None):
        found = (draw or page_image)(page)
    if found is None:
        return _rendition(page)
    drawn = found if isinstance(found, Image.Image) else _opened(Path(found), page)
    drawn = drawn.convert("RGB")
    larger = MIN_WIDTH, round(drawn.height * MIN_WIDTH / drawn.width)
    most = (page.limits or ReadingLimits()).max_pixels
    if drawn.width < MIN_WIDTH and larger[0] * larger[1] <= most:
        return drawn.resize(larger, Image.Resampling.LANCZOS)
    return drawn


def _opened(path: Path, page: Page) -> Image.Image:
    from hushdoc.reading import files, images

    if not path.is_file():
        raise InputError(
            f"The page image '{path}' is missing. Give an image file, or none to draw the "
            "words into their boxes."
        )
    limits = page.limits or ReadingLimits()
    content = files.content_of(path, limits)
    return images.frame_image(content, 0, id=path.name, limits=limits)


def _rendition(page: Page) -> Image.Image:
    """Returns a white page with every word written into its box."""
    from PIL import Image, ImageDraw

    scale = max(1.0, MIN_WIDTH / page.width)
    size = max(1, round(page.width * scale)), max(1, round(page.height * scale))
    most = (page.limits or ReadingLimits()).max_pixels
    if size[0] * size[1] > most:
        raise LimitExceededError(
            f"The page would be drawn with {size[0]} x {size[1]} pixels; at most {most} in all are "
            "drawn. Correct the page's width and height, or raise ReadingLimits.max_pixels."
        )
    canvas = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(canvas)
    view = View(page=page, width=canvas.width, height=canvas.height)
    for word in page.words:
        x0, y0, x1, y1 = view.place(word.box)
        text = single_line(word.text)
        if not text or x1 <= x0 or y1 <= y0:
            continue
        font = _fitted(text, x1 - x0, y1 - y0)
        pen.text((x0, (y0 + y1) / 2), text, font=font, fill=INK, anchor="lm")
    pen.rectangle((0, 0, canvas.width - 1, canvas.height - 1), outline=RULE)
    return canvas


def _fitted(text: str, width: int, height: int) -> Font:
    """Returns the largest font whose text fits into a box."""
    size = max(6, round(height * 0.9))
    font = font_of(size)
    needed = font.getlength(text)
    return font if needed <= width else font_of(max(6, int(size * width / needed)))


def font_of(size: int) -> Font:
    """Returns Pillow's own font; it needs no font file of the system."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def single_line(text: str) -> str:
    """Returns text without the characters that would break a line or turn its direction."""
    return "".join(character if character.isprintable() else " " for character in text).strip()
