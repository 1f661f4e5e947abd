"""Normalised text, as redaction compares it: without case, width, ligatures, invisible characters.

Texts that a reader considers equal normalise to the same string: composed and decomposed accents,
sharp s and "ss", full-width and plain digits, a word with a soft hyphen and without.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat

from hushdoc.viewing.matching import Runs

_WORD, _SPACE, _OTHER = range(3)

_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f]")
"""Characters that are invisible and not of the category Cf (Unicode's property
Default_Ignorable_Code_Point, in the plane that text is written in)."""


MAX_ACCENTS = 30
"""Accents of one character that are brought into one order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalisedText:
    """A normalised text, and where the source of each of its characters begins and stops."""

    text: str
    starts: array[int]
    stops: array[int]


def normalised(text: str) -> str:
    """Returns a text without what redaction disregards."""
    if text.isascii():
        return text.casefold()
    plain = "".join(
        unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", part).casefold())
        for part in in_parts(text)
    )
    return _INVISIBLE.sub("", "".join(c for c in plain if unicodedata.category(c) != "Cf"))


def in_parts(text: str) -> Iterator[str]:
    """Yields parts without longer runs of accents, which take the square of their length to order.

    30 is the limit of the Stream-Safe Text Format (UAX 15); no script has as many.
    """
    start = accents = 0
    for place, character in enumerate(text):
        accents = accents + 1 if unicodedata.combining(character) else 0
        if accents > MAX_ACCENTS:
            yield text[start:place]
            start, accents = place, 1
    yield text[start:]


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
    # Lists of integers would take ten times the memory, and a text may be of any length.
    starts, stops = array("q"), array("q")
    for start, stop in _clusters(text):
        piece = normalised(text[start:stop])
        pieces.append(piece)
        starts.extend(repeat(start, len(piece)))
        stops.extend(repeat(stop, len(piece)))
    return NormalisedText(text="".join(pieces), starts=starts, stops=stops)


def tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields the pieces of a normalised text with where they start and stop.

    A piece is a run of characters of words, any other character, or whitespace of any length,
    which is one space.
    """
    start = 0
    for kind, characters in groupby(text, key=_kind):
        run = "".join(characters)
        stop = start + len(run)
        if kind == _OTHER:
            yield from ((c, place, place + 1) for place, c in enumerate(run, start=start))
        else:
            yield run if kind == _WORD else " ", start, stop
        start = stop


def _kind(character: str) -> int:
    if character.isspace():
        return _SPACE
    return _WORD if in_word(character) else _OTHER


def places(text: NormalisedText, wanted: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yields where normalised texts stand as whole words, looked for all at once.

    Each comes with its number, and its start and stop in the text's source; one that lies inside
    another and ends with it is left out.
    """
    pieces: list[str] = []
    begins, ends = array("q"), array("q")
    for piece, begin, end in tokens(text.text):
        pieces.append(piece)
        begins.append(begin)
        ends.append(end)
    asked = [[piece for piece, _, _ in tokens(" ".join(one.split()))] for one in wanted]

    def alone(first: int, stop: int) -> bool:
        before = first > 0 and in_word(pieces[first - 1][-1])
        after = stop < len(pieces) and in_word(pieces[stop][0])
        return not before and not after

    for number, first, stop in Runs(asked).find(pieces, alone):
        yield number, text.starts[begins[first]], text.stops[ends[stop - 1] - 1]


def places_of_words(
    text: NormalisedText, wanted: Sequence[Sequence[str]]
) -> Iterator[tuple[int, int, int]]:
    """Yields where runs of words stand, whatever the punctuation around each; see `places`.

    The words of `wanted` are `bare`.
    """
    located = []
    for found in re.finditer(r"\S+", text.text):
        word = bare(found[0])
        start = found.start() + found[0].index(word)
        located.append((word, start, start + len(word)))
    for number, first, stop in Runs(wanted).find(word for word, _, _ in located):
        yield number, text.starts[located[first][1]], text.stops[located[stop - 1][2] - 1]


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Yields runs of a character and its accents: what normalizing never reaches beyond."""
    start = 0
    for place, character in enumerate(text):
        if place > start and (character < "\u0300" or not unicodedata.combining(character)):
            yield start, place
            start = place
    if text:
        yield start, len(text)
