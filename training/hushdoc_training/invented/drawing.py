"""Drawing: the image of a planned page, clean or worn by copying, faxing and scanning."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from hushdoc_training.invented import fonts, random_draws
from hushdoc_training.invented.planning import Plan
from hushdoc_training.invented.settings import TILL_RECEIPT
from hushdoc_training.invented.sheet import Colour, Ink, Mark

_WHITE: Colour = (255, 255, 255)


def draw(plan: Plan, *, worn: bool = True) -> Image.Image:
    """Returns the page's image, clean or worn by copying and scanning, turned as its boxes are."""
    image = _clean(plan)
    if plan.scan.degrees:
        image = image.rotate(plan.scan.degrees, resample=Image.Resampling.BICUBIC, fillcolor=_WHITE)
    return _worn(image, plan) if worn else image


def _clean(plan: Plan) -> Image.Image:
    sheet, shown = plan.sheet, set(plan.order)
    image = Image.new("RGB", (sheet.width, sheet.height), sheet.paper)
    pen = ImageDraw.Draw(image)
    for mark in sheet.marks:
        _mark(pen, mark)
    for ink in sheet.inks:
        if ink.segment in shown:
            _ink(image, pen, ink)
    return image


def _ink(image: Image.Image, pen: ImageDraw.ImageDraw, ink: Ink) -> None:
    font, text = fonts.load(ink.font, ink.size), fonts.drawn(ink.font, ink.text)
    if ink.turned:
        wide, high = ink.box[3] - ink.box[1] + 8, 2 * ink.size
        strip = Image.new("L", (wide, high), 255)
        ImageDraw.Draw(strip).text((0, ink.size), text, font=font, fill=0, anchor="ls")
        strip = strip.rotate(90, expand=True)
        corner = (ink.x - ink.size, ink.y - wide)
        below = image.crop((*corner, corner[0] + high, corner[1] + wide))
        image.paste(ImageChops.darker(below, strip.convert("RGB")), corner)
        return
    pen.text((ink.x, ink.y), text, font=font, fill=ink.colour, anchor="ls")
    if ink.font.endswith(fonts.OVERSTRUCK):
        pen.text((ink.x + 1, ink.y), text, font=font, fill=ink.colour, anchor="ls")


def _mark(pen: ImageDraw.ImageDraw, mark: Mark) -> None:
    points, colour = mark.points, mark.colour
    match mark.shape:
        case "line":
            pen.line(points, fill=colour, width=mark.thick)
        case "rect":
            edge = colour if mark.thick else None
            pen.rectangle(points, outline=edge, fill=mark.fill, width=max(1, mark.thick))
        case "ellipse":
            edge = None if mark.fill else colour
            pen.ellipse(points, outline=edge, fill=mark.fill, width=mark.thick)
        case "dots":
            x0, y, x1, _ = points
            for x in range(x0, x1, 5):
                pen.point((x, y), fill=colour)
                pen.point((x + 1, y), fill=colour)
        case "curve":
            pen.line(_rounded(points), fill=colour, width=mark.thick, joint="curve")


def _rounded(points: tuple[int, ...]) -> list[tuple[float, float]]:
    """Returns a smooth stroke (Catmull-Rom) through these points."""
    stops = [(float(x), float(y)) for x, y in zip(points[::2], points[1::2], strict=True)]
    stops = [stops[0], *stops, stops[-1]]
    stroke: list[tuple[float, float]] = []
    for before, start, stop, after in zip(stops, stops[1:], stops[2:], stops[3:], strict=False):
        for step in range(6):
            t = step / 6
            stroke.append(
                (
                    _between(before[0], start[0], stop[0], after[0], t),
                    _between(before[1], start[1], stop[1], after[1], t),
                )
            )
    return stroke


def _between(a: float, b: float, c: float, d: float, t: float) -> float:
    cubic = 3 * b - a - 3 * c + d
    square = 2 * a - 5 * b + 4 * c - d
    return 0.5 * (2 * b + (c - a) * t + square * t * t + cubic * t * t * t)


def _worn(image: Image.Image, plan: Plan) -> Image.Image:
    """Returns the image as paper and machines have left it."""
    rng = random_draws.Draws(*plan.key)
    grains = random_draws.generator(*plan.key, 1)
    if plan.document_type == "form":
        manner = rng.unit()
        if manner < 0.4:
            return _faxed(image, rng, grains)
        return _scanned(image.convert("L"), rng, grains, strength=1.0)
    if plan.document_type in ("receipt", TILL_RECEIPT):
        return _thermal(image, rng, grains)
    if rng.flip(0.5):
        return image
    return _scanned(image, rng, grains, strength=0.4)


def _faxed(image: Image.Image, rng: random_draws.Draws, grains: np.random.Generator) -> Image.Image:
    """Returns black and white only, with broken letters and specks."""
    gray = image.convert("L").filter(ImageFilter.GaussianBlur(rng.real(0.3, 0.7)))
    pixels = np.asarray(gray, dtype=np.float32)
    coarse = grains.normal(0.0, rng.real(4, 26), pixels.shape)
    dark = pixels + coarse < rng.real(120, 190)
    specks = grains.random(pixels.shape) < rng.pick((0.0, 0.0002, 0.0008, 0.002))
    dark |= specks
    _edges(dark, rng)
    return Image.fromarray(np.where(dark, 0, 255).astype(np.uint8), "L")


def _edges(dark: npt.NDArray[np.bool_], rng: random_draws.Draws) -> None:
    """Blackens what a copier leaves along the edges of a page, and the holes of a binder."""
    height, width = dark.shape
    if rng.flip(0.2):
        dark[:, : rng.integer(2, 7)] = True
    if rng.flip(0.12):
        dark[height - rng.integer(2, 8) :, :] = True
    if rng.flip(0.1):
        down, along = np.ogrid[:height, :width]
        for place in (0.2, 0.8):
            middle = (height * place, 14)
            dark |= (down - middle[0]) ** 2 + (along - middle[1]) ** 2 < rng.integer(5, 9) ** 2


def _scanned(
    image: Image.Image, rng: random_draws.Draws, grains: np.random.Generator, *, strength: float
) -> Image.Image:
    """Returns a page in shades, a little blurred, gray and grainy."""
    soft = image.filter(ImageFilter.GaussianBlur(rng.real(0.0, 0.75) * strength))
    pixels = np.asarray(soft, dtype=np.float64)
    lightest = 255 - rng.real(0, 40) * strength
    darkest = rng.real(0, 80) * strength
    pixels = darkest + pixels * (lightest - darkest) / 255
    shape = pixels.shape[:2]
    grain = grains.normal(0.0, rng.real(0.5, 9) * strength, shape)
    if rng.flip(0.3):
        shade = np.linspace(-1, 1, shape[1]) * rng.real(-9, 9) * strength
        grain = grain + shade[None, :]
    if pixels.ndim == 3:
        grain = grain[:, :, None]
    return Image.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8), image.mode)


def _thermal(
    image: Image.Image, rng: random_draws.Draws, grains: np.random.Generator
) -> Image.Image:
    """Returns a slip of thermal paper: grayish print in rows, here and there faded."""
    pixels = np.asarray(image, dtype=np.float64)
    height, width = pixels.shape[:2]
    fading = rng.real(0, 90)
    waves: npt.NDArray[np.float64] = (
        np.sin(np.arange(width) / rng.real(30, 140) + rng.real(0, 6)) * 0.5 + 0.5
    )
    rows = grains.normal(0.0, 5.0, height)
    faded = np.add.outer(rows, fading * waves)
    lighter = faded + grains.normal(0.0, 3.0, (height, width))
    tint = np.array(rng.pick(((252, 252, 250), (247, 244, 236), (240, 241, 246), (250, 248, 240))))
    share = 1 - pixels / 255
    ink = np.array(rng.pick(((40, 40, 45), (70, 60, 90), (30, 30, 30))), dtype=np.float32)
    ink = np.clip(ink[None, None, :] + lighter[:, :, None], 0, 200)
    mixed = tint[None, None, :] * (1 - share) + ink * share + grains.normal(0, 1.5, share.shape)
    return Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8), "RGB")
