"""Noise: what scanners, OCR and hasty annotators do to words and boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushdoc.document.page import Box
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.settings import InventedConfig

_CONFUSED = {
    "O": "0", "0": "O", "l": "1", "1": "l", "I": "l", "S": "5", "5": "S", "B": "8", "8": "B",
    "e": "c", "c": "e", "a": "o", "o": "e", "n": "u", "u": "n", "h": "b", "t": "f", "f": "t",
    "i": "l", "m": "rn", "w": "vv", "G": "6", "Z": "2", "2": "Z", "g": "q", "E": "F", "D": "O",
    ",": ".", ".": ",", ":": ";", "-": "~", "s": "a", "r": "n", "d": "cl", "U": "V", "M": "N",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """How one page went through the scanner."""

    degrees: float  # counter-clockwise
    sine: float
    cosine: float
    misspelled: float  # share of words that were misread
    jitter: float  # how far box edges are off, in pixels
    loose: int  # how far boxes are drawn around the ink, in pixels
    level: bool  # whether all boxes of one size are as high as its tallest letters


def scan(rng: Draws, config: InventedConfig, document_type: str) -> Scan:
    """Returns what happens to one page; forms fare worst."""
    worst = 1.0 if document_type == "form" else 0.4
    degrees = config.skew_degrees * worst * rng.real(-1, 1) * float(rng.flip(0.5))
    return Scan(
        degrees=degrees,
        sine=math.sin(math.radians(degrees)),
        cosine=math.cos(math.radians(degrees)),
        misspelled=config.misspelled * rng.weighted(((0.0, 4.0), (0.7, 3.0), (2.4, 3.0))),
        jitter=config.jitter_pixels * rng.unit() * float(rng.flip(0.7)),
        loose=rng.weighted(((0, 5.0), (1, 4.0), (2, 2.0), (3, 0.4))),
        level=rng.flip(0.35),
    )


def misread(text: str, rng: Draws) -> str:
    """Returns the word as a poor OCR reads it."""
    place = rng.integer(0, len(text) - 1)
    sign, manner = text[place], rng.unit()
    if manner < 0.7:
        return text[:place] + _CONFUSED.get(sign, sign) + text[place + 1 :]
    if manner < 0.85 and len(text) > 2:
        return text[:place] + text[place + 1 :]
    return text + rng.pick((".", ",", "'", "-", "_", ";"))


def boxed(edges: tuple[float, float, float, float], scan: Scan, width: int, height: int) -> Box:
    """Returns the upright box around edges that were turned with their page, in whole pixels."""
    x0, y0, x1, y1 = edges
    if scan.sine:
        half_width, half_height = (x1 - x0) / 2, (y1 - y0) / 2
        right, down = (x0 + x1 - width) / 2, (y0 + y1 - height) / 2
        x = right * scan.cosine + down * scan.sine + width / 2
        y = down * scan.cosine - right * scan.sine + height / 2
        lean = abs(scan.sine)
        wide = half_width * scan.cosine + half_height * lean
        high = half_height * scan.cosine + half_width * lean
        x0, y0, x1, y1 = x - wide, y - high, x + wide, y + high
    left = 0 if x0 < 0 else int(x0 + 0.5) if x0 < width - 1 else width - 1
    top = 0 if y0 < 0 else int(y0 + 0.5) if y0 < height - 1 else height - 1
    far, low = int(x1 + 0.5), int(y1 + 0.5)
    return Box(
        x0=float(left),
        y0=float(top),
        x1=float(width if far > width else far if far > left else left + 1),
        y1=float(height if low > height else low if low > top else top + 1),
    )
