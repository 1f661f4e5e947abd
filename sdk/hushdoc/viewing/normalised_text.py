"""Normalised text, as redaction compares it: without case, width, ligatures, invisible characters.

Texts that a reader considers equal normalise to the same string: composed and decomposed accents,
sharp s and "ss", full-width and plain digits, a word with a soft hyphen and without.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f]")
"""Characters that are invisible and not of the category Cf (Unicode's property
Default_Ignorable_Code_Point, in the plane that text is written in)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalisedText:
    """A normalised text, and where the source of each of its characters begins and stops."""

    text: str
    starts: tuple[int, ...]
    stops: tuple[int, ...]


def normalised(text: str) -> str:
    """Returns a text without what redaction disregards."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return _INVISIBLE.sub("", "".join(c for c in plain if unicodedata.category(c) != "Cf"))


def bare(text: str) -> str:
    """Returns a normalised text without punctuation around it; punctuation alone stays."""
    start, stop = 0, len(text)
    while start < stop and not in_word(text[start]):
        start += 1
    while stop > start and not in_word(text[stop - 1]):
        stop -= 1
    return text[start:stop] or text


def in_word(character: str) -> bool:
    """Returns whether a character is a letter, digit, combining mark or underscore."""
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def normalised_with_places(text: str) -> NormalisedText:
    """Returns a normalised text, and where each of its characters came from."""
    pieces: list[str] = []
    starts: list[int] = []
    stops: list[int] = []
    for start, stop in _clusters(text):
        piece = normalised(text[start:stop])
        pieces.append(piece)
        starts += [start] * len(piece)
        stops += [stop] * len(piece)
    return NormalisedText(text="".join(pieces), starts=tuple(starts), stops=tuple(stops))


def places(text: NormalisedText, wanted: str) -> Iterator[tuple[int, int]]:
    """Yields where normalised words stand as whole words: start and stop in the text's source."""
    words = wanted.split()
    if not words:
        return
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    after = 0
    while found := pattern.search(text.text, after):
        start, stop = found.span()
        if (start == 0 or not in_word(text.text[start - 1])) and (
            stop == len(text.text) or not in_word(text.text[stop])
        ):
            yield text.starts[start], text.stops[stop - 1]
            after = stop
        else:
            after = start + 1


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Yields runs of a character and its accents: what normalizing never reaches beyond."""
    start = 0
    for place, character in enumerate(text):
        if place > start and (character < "\u0300" or not unicodedata.combining(character)):
            yield start, place
            start = place
    if text:
        yield start, len(text)
