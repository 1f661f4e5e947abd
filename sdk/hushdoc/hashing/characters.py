"""The characters of a text as an array of bytes, one for each, wherever they are not ASCII too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

FOREIGN = 0x80
"""Stands for every character that is not ASCII."""

_CHUNK_CHARACTERS = 1 << 18
_BLANKS = np.isin(np.arange(256), list(b" \t\n\v\f\r\x1c\x1d\x1e\x1f"))


def codes_of(text: str) -> Codes:
    """Returns the code of every character, FOREIGN where it is not ASCII."""
    if text.isascii():
        return np.frombuffer(text.encode(), dtype=np.uint8)
    codes = np.empty(len(text), dtype=np.uint8)
    for start in range(0, len(text), _CHUNK_CHARACTERS):
        wide = code_points(text[start : start + _CHUNK_CHARACTERS])
        np.minimum(wide, FOREIGN, out=codes[start : start + len(wide)], casting="unsafe")
    return codes


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """Returns the code point of every character; lone surrogates have theirs."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def is_blank(codes: Codes) -> npt.NDArray[np.bool_]:
    """Returns which codes are whitespace of ASCII."""
    return _BLANKS.take(codes)


def is_letter(codes: Codes) -> npt.NDArray[np.bool_]:
    """Returns which codes are letters of ASCII."""
    return (codes | np.uint8(0x20)) - np.uint8(ord("a")) < 26


def is_digit(codes: Codes) -> npt.NDArray[np.bool_]:
    """Returns which codes are digits of ASCII."""
    return codes - np.uint8(ord("0")) < 10
