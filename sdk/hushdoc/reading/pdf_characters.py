"""Characters of a text layer: what each is, where it stands, and which way it is written.

Contract: every call here is inside `pdf._pdfium`.
"""

from __future__ import annotations

import ctypes
import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Rectangle = tuple[float, float, float, float]
"""Left, bottom, right, top in the page's own points."""

SOFT_HYPHEN = "\x02"
"""What PDFium puts for a hyphen at the end of a line."""

CODE = "\x01"
"""Stands for a bare code of a font that happens to be that of a soft hyphen."""

GUESS = ""
"""Stands for a space that PDFium adds."""

PROBES = "M\uffff"
"""A wide character, and one that no font has."""

LEVEL, INK, LEAST_WIDTH = 0.999, 1e-3, 0.6
"""On lines as level as this (cosine), what ends so close to its ink, in font sizes, has the width
that its font says, if that is so large a share of the ink's."""


@dataclass(frozen=True, slots=True)
class Style:
    """What the characters of a text object share.

    The direction of the baseline, of length 1; the size of the font, and the height of a box; the
    font, its nominal size and how much that is enlarged along the baseline, and the widths of its
    characters as far as they were asked for.
    """

    across: float
    up: float
    size: float
    height: float
    font: Any
    nominal: float
    scale: float
    widths: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)  # not frozen, which takes three times as long to make
class Character:
    """A character, its box, and where along its baseline it begins and how far it goes.

    Whitespace has no box, and neither has what stands nowhere.
    """

    text: str
    box: Rectangle | None = None
    x: float = 0.0
    y: float = 0.0
    advance: float = 0.0
    style: Style | None = None


def characters(layer: Any) -> Iterator[Character]:
    """Yields each character of a text layer, without the whitespace that PDFium adds."""
    import pypdfium2.raw as raw

    styles: dict[int, Style | None] = {}
    sides = [ctypes.c_double() for _ in range(4)]
    loose = raw.FS_RECTF()
    high = 0
    for index in range(layer.count_chars()):
        code = raw.FPDFText_GetUnicode(layer, index)
        if 0xD800 <= code < 0xDC00:  # the first half of a pair
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
        high = 0
        text = chr(code) if 0 < code < 0x110000 else "\ufffd"
        if text == SOFT_HYPHEN and raw.FPDFText_IsHyphen(layer, index) != 1:
            text = CODE
        if text.isspace():
            if not raw.FPDFText_IsGenerated(layer, index):
                yield Character(text)
            elif text == " ":
                yield Character(GUESS)
            continue
        text_object = raw.FPDFText_GetTextObject(layer, index)
        address = ctypes.cast(text_object, ctypes.c_void_p).value or 0
        if address not in styles:
            styles[address] = _style(layer, index, text_object)
        yield _character(layer, index, text, styles[address], sides, loose)


def is_seen(text: str) -> bool:
    """Returns whether a character is more than whitespace, control or guaranteed to be none."""
    if "!" <= text <= "~":
        return True
    if text in (SOFT_HYPHEN, GUESS):
        return text == SOFT_HYPHEN
    return (
        not text.isspace()
        and unicodedata.category(text) not in ("Cc", "Cs")
        and not (is_noncharacter(text))
    )


def is_noncharacter(text: str) -> bool:
    """Returns whether Unicode guarantees that a code is never a character."""
    code = ord(text)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def grown(one: Rectangle | None, other: Rectangle | None) -> Rectangle | None:
    """Returns the rectangle around two."""
    if one is None or other is None:
        return one or other
    return (
        min(one[0], other[0]),
        min(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def _character(
    layer: Any, index: int, text: str, style: Style | None, sides: Sequence[Any], loose: Any
) -> Character:
    import pypdfium2.raw as raw

    box, advance = None, 0.0
    left, right, bottom, top = sides
    if raw.FPDFText_GetCharBox(layer, index, left, right, bottom, top):
        box = (left.value, bottom.value, right.value, top.value)
    # The font's whole height: words of a line are level, whatever their characters.
    if raw.FPDFText_GetLooseCharBox(layer, index, loose):
        whole = (loose.left, loose.bottom, loose.right, loose.top)
        box = grown(box, whole)
        if style is not None:
            advance = _advance(whole, style)
            is_ink = loose.right - right.value < INK * style.size
            if is_ink and style.across > LEVEL and text.isascii():
                advance = _narrower(advance, text, style)
    if not raw.FPDFText_GetCharOrigin(layer, index, left, bottom):
        return Character(text, box)
    return Character(text, box, left.value, bottom.value, advance, style)


def _advance(box: Rectangle, style: Style) -> float:
    """Returns the width of what stands in a box with sides parallel to the page's."""
    across, up = abs(style.across), abs(style.up)
    if across >= up:
        return (box[2] - box[0] - style.height * up) / across
    return (box[3] - box[1] - style.height * across) / up


def _narrower(advance: float, text: str, style: Style) -> float:
    """Returns how far a character goes whose ink may go further, if its font says that.

    A font that does not know which characters it has gives all of them one width.
    """
    for one in (text, *PROBES):
        if one not in style.widths:
            style.widths[one] = _width(one, style)
    width = style.widths[text]
    believed = len({style.widths[one] for one in (text, *PROBES)}) > 1
    return min(width, advance) if believed and width >= LEAST_WIDTH * advance else advance


def _width(text: str, style: Style) -> float:
    import pypdfium2.raw as raw

    width = ctypes.c_float()
    raw.FPDFFont_GetGlyphWidth(style.font, ord(text), style.nominal, width)
    return abs(width.value) * style.scale


def _style(layer: Any, index: int, text_object: Any) -> Style | None:
    """Returns the style of a text object that has a character; None where it has no size."""
    import pypdfium2.raw as raw

    matrix = raw.FS_MATRIX()
    nominal = raw.FPDFText_GetFontSize(layer, index)
    if not text_object or not raw.FPDFText_GetMatrix(layer, index, matrix):
        return None
    across, up = math.hypot(matrix.a, matrix.b), math.hypot(matrix.c, matrix.d)
    size = abs(nominal) * math.sqrt(abs(matrix.a * matrix.d - matrix.b * matrix.c))
    if not (across > 0 and size > 0 and math.isfinite(size)):
        return None
    ascent, descent = ctypes.c_float(), ctypes.c_float()
    font = raw.FPDFTextObj_GetFont(text_object)
    raw.FPDFFont_GetAscent(font, nominal, ascent)
    raw.FPDFFont_GetDescent(font, nominal, descent)
    # A negative size writes to the other side.
    side = math.copysign(1.0, nominal) / across
    height = abs(ascent.value - descent.value) * up
    return Style(matrix.a * side, matrix.b * side, size, height, font, nominal, across)
