"""The tokens of a text of ASCII characters, all found together by arithmetic on arrays.

They are those of `segmentation.tokens`, whose expression reads one character after the other.
"""

from __future__ import annotations

import numpy as np

from hushdoc.hashing.characters import Codes, Places, is_digit

_BLANK, _WORD, _STARS, _EQUALS, _OTHER, _APOSTROPHE, _COMMA, _HYPHEN, _STOP = range(9)
"""What a character is. Of these _OTHER, _APOSTROPHE and _COMMA are tokens of one character; all
from _APOSTROPHE on may be inside a word or number."""


def _classes() -> bytes:
    classes = bytearray([_OTHER]) * 256
    for characters, number in (
        (" \t\n\v\f\r\x1c\x1d\x1e\x1f", _BLANK),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", _WORD),
        *(("*", _STARS), ("=", _EQUALS), ("'", _APOSTROPHE)),
        *((",", _COMMA), ("-", _HYPHEN), (".", _STOP)),
    ):
        for character in characters:
            classes[ord(character)] = number
    return bytes(classes)


_CLASSES = _classes()


def token_spans(content: bytes) -> tuple[Places, Places]:
    """Returns where each token starts and stops; bytes that are not ASCII must not be there."""
    classes = np.empty(len(content) + 2, dtype=np.uint8)
    classes[0] = classes[-1] = _BLANK
    classes[1:-1] = np.frombuffer(content.translate(_CLASSES), dtype=np.uint8)
    _join_words(classes, np.frombuffer(content, dtype=np.uint8))
    before, after = classes[:-1], classes[1:]
    edges = before != after
    edges |= after - np.uint8(_OTHER) < 3
    return np.flatnonzero(edges & (after != _BLANK)), np.flatnonzero(edges & (before != _BLANK))


def _join_words(classes: Codes, codes: Codes) -> None:
    """Makes what joins words, as in "on-line", and numbers, as in "1,5", part of them."""
    joins = np.flatnonzero(classes >= _APOSTROPHE)
    own = classes[joins]
    joined = (classes[joins - 1] == _WORD) & (classes[joins + 1] == _WORD)
    joins, own = joins[joined], own[joined]
    of_words = (own == _APOSTROPHE) | (own == _HYPHEN)
    of_numbers = is_digit(codes[joins - 2]) & is_digit(codes[joins])
    classes[joins[of_words | of_numbers]] = _WORD
