"""Fonts: the typefaces that come with matplotlib and Pillow, and how large their words are.

Words are measured glyph by glyph. Pillow's basic layout sets glyphs beside one another by their
whole-pixel advances, so the sum is what will be drawn, at a tenth of the cost of measuring words.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
from PIL import ImageFont

OVERSTRUCK = "+"
"""Ends the name of a face that has no bold and is struck twice, one pixel apart."""

FAMILIES: dict[str, tuple[str, str, str]] = {
    "sans": ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique"),
    "serif": ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic"),
    "mono": ("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique"),
    "times": ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic"),
    "typewriter": ("cmtt10", "cmtt10+", "cmtt10"),
    "roman": ("cmr10", "cmb10", "cmti10"),
    "grotesque": ("cmss10", "cmss10+", "cmss10"),
    "plain": ("Aileron", "Aileron+", "Aileron"),
    "script": ("Script", "Script", "Script"),
}
"""Regular, bold and italic face of every family."""

_DEFAULT, _SCRIPT = "Aileron", "Script"
_SCRIPT_CAPITALS, _SCRIPT_SMALL = 0x1D4D0, 0x1D4EA
_OFTEN_LACKING = ("cmr", "cmb", "cmss", "cmti")
_STAND_INS = {
    "cmr10": "STIXGeneral",
    "cmb10": "STIXGeneralBol",
    "cmti10": "STIXGeneralItalic",
    "cmss10": "DejaVuSans",
    "cmss10+": "DejaVuSans-Bold",
    "cmtt10": "DejaVuSansMono",
    "cmtt10+": "DejaVuSansMono-Bold",
    "Aileron": "DejaVuSans",
    "Aileron+": "DejaVuSans-Bold",
}
"""Faces that take over where one of these lacks a sign."""
_UNLIKE_ASCII = frozenset('<>{}|\\_"~^$')
"""Signs that the Computer Modern faces (but for the typewriter) draw as something else."""


class Extent(NamedTuple):
    """How far a word reaches from its origin on the baseline, in pixels; advance is to the next."""

    advance: int
    left: int
    top: int
    right: int
    bottom: int


def face_for(face: str, text: str) -> str:
    """Returns the face, or one that has all the signs of this text where it lacks some."""
    if text.isascii():
        if not face.startswith(_OFTEN_LACKING) or not _UNLIKE_ASCII & set(text):
            return face
    elif face.startswith("DejaVuSans"):
        return face
    drawn_by = _STAND_INS.get(face, face)
    return "DejaVuSans" if max(text) >= "\u2500" else drawn_by


def drawn(face: str, text: str) -> str:
    """Returns the signs to draw; the script face lives in a mathematical alphabet."""
    if face != _SCRIPT:
        return text
    return "".join(
        chr(ord(sign) - 65 + _SCRIPT_CAPITALS)
        if "A" <= sign <= "Z"
        else chr(ord(sign) - 97 + _SCRIPT_SMALL)
        if "a" <= sign <= "z"
        else sign
        for sign in text
    )


@lru_cache(maxsize=512)
def load(face: str, size: int) -> ImageFont.FreeTypeFont:
    """Returns the font; one face and size is read once."""
    if face.rstrip(OVERSTRUCK) == _DEFAULT:
        font = ImageFont.load_default(size)
        assert isinstance(font, ImageFont.FreeTypeFont)
        return font
    name = "STIXGeneral" if face == _SCRIPT else face.rstrip(OVERSTRUCK)
    return ImageFont.truetype(
        str(_folder() / f"{name}.ttf"), size, layout_engine=ImageFont.Layout.BASIC
    )


def measure(face: str, size: int, text: str) -> Extent:
    """Returns how large a word is when this face draws it at this size."""
    glyphs = _glyphs(face, size)
    first = glyphs[text[0]]
    advance, right, top, bottom = 0, 0, first.top, first.bottom
    for sign in text:
        glyph = glyphs[sign]
        right = advance + glyph.right
        advance += glyph.advance
        if glyph.top < top:
            top = glyph.top
        if glyph.bottom > bottom:
            bottom = glyph.bottom
    return Extent(advance, first.left, top, right, bottom)


def space(face: str, size: int) -> int:
    """Returns the width of a space."""
    return _glyphs(face, size)[" "].advance


class _Glyphs(dict[str, Extent]):
    """The measured glyphs of one face and size; a new sign is measured when it is asked for."""

    def __init__(self, face: str, size: int) -> None:
        super().__init__()
        self.face, self.size = face, size

    def __missing__(self, sign: str) -> Extent:
        font = load(self.face, self.size)
        text = drawn(self.face, sign)
        mask, (left, top) = font.getmask2(text, mode="L", anchor="ls")
        ink = mask.getbbox() or (0, 0, 0, 0)
        twice = 1 if self.face.endswith(OVERSTRUCK) else 0
        extent = Extent(
            round(font.getlength(text)),
            left + ink[0],
            top + ink[1],
            left + ink[2] + twice,
            top + ink[3],
        )
        self[sign] = extent
        return extent


@lru_cache(maxsize=512)
def _glyphs(face: str, size: int) -> _Glyphs:
    return _Glyphs(face, size)


@cache
def _folder() -> Path:
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"
