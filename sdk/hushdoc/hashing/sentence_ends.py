"""Where sentences may end: all full stops and line breaks of a text, most of them decided at once.

`segmentation` has the rules. What surrounds most stops and breaks is plain enough, such as a long
word before and a capital after one blank, to know by arithmetic on arrays what the rules say of
them. All others are left to the rules.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hushdoc.hashing.characters import (
    FOREIGN,
    Codes,
    Places,
    code_points,
    codes_of,
    is_blank,
    is_digit,
    is_letter,
)

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

MARGIN = 16
"""Codes that are known before the first and after the last character: 0, for none."""

LONGEST_WORD = 7
"""Letters: longer words before a full stop are not in the rules."""

_MONTH_LETTERS = 3
_BLANK_STEPS = 4
_NONE = np.zeros(0, dtype=np.intp)
_EACH = np.uint64(0x0101010101010101)
"""One in each of the eight bytes of a word."""

_CHUNK_CHARACTERS = 1 << 18
_CLOSERS, _OPENERS, _MARKS = b"\"')]}", b"\"'([{", b".!?"
_ENDS_LINE, _GOES_ON = b";:", b",-&/("


@cache
def _flags(characters: bytes) -> Flags:
    """Returns for every code whether it is one of these characters."""
    flags = np.zeros(256, dtype=bool)
    flags[list(characters)] = True
    return flags


@cache
def _packed(words: frozenset[str]) -> Words:
    """Returns the words of ASCII as sorted numbers, their last letters in the highest bits."""
    encoded = [word.encode() for word in words if word.isascii() and len(word) <= 8]
    packed = [int.from_bytes(word.rjust(8, b"\0"), "little") for word in encoded]
    return np.array(sorted(packed), dtype=np.uint64)


@cache
def _months_begin(months: frozenset[str]) -> Words:
    """Returns what months begin with, packed, where it is ASCII."""
    return _packed(frozenset(month[:_MONTH_LETTERS] for month in months))


class Candidates(NamedTuple):
    """Where sentences of a text may end, in order.

    `stops` are full stops that end one, unless what they end is a number of a clause. `lines` are
    runs of whitespace from their first line break to `line_ends`; `breaks` says which end one.
    `asked_stops` and `asked_lines` are for the rules to decide.
    """

    stops: Places
    asked_stops: Places
    lines: Places
    line_ends: Places
    breaks: Flags
    asked_lines: Flags


class Characters:
    """The characters of a text, by their distance from some places."""

    def __init__(self, text: str) -> None:
        """Takes the codes of the text."""
        self.text = text
        self.has_foreign = not text.isascii()
        self._codes = np.zeros(len(text) + 2 * MARGIN, dtype=np.uint8)
        self._codes[MARGIN : MARGIN + len(text)] = codes_of(text)

    def at(self, places: Places, offset: int) -> Codes:
        """Returns the codes at a distance of at most MARGIN from some places."""
        return self._codes[MARGIN + offset :].take(places)

    def among(self, places: Places, offset: int, characters: bytes) -> Flags:
        """Returns where one of these characters is at that distance."""
        return _flags(characters).take(self.at(places, offset))

    def eight_from(self, places: Places, offset: int) -> Words:
        """Returns eight codes each from a distance on, the first in the lowest bits."""
        size = len(self._codes) - MARGIN - offset - 7
        words = np.ndarray(size, "<u8", self._codes, MARGIN + offset, (1,))
        return words[places].astype(np.uint64, copy=False)

    def foreign(self, codes: Codes) -> Places:
        """Returns which of some codes are of characters that are not ASCII."""
        return np.flatnonzero(codes == FOREIGN) if self.has_foreign else _NONE

    def find(self, foreign: str) -> Places:
        """Returns all line breaks and marks of ASCII, and some characters that are not ASCII."""
        found = []
        for start in range(0, len(self.text), _CHUNK_CHARACTERS):
            codes = self._codes[MARGIN + start : MARGIN + start + _CHUNK_CHARACTERS]
            codes = codes[: len(self.text) - start]
            chosen = (codes - np.uint8(0x0A) < 4) | (codes - np.uint8(0x1C) < 3)
            for mark in _MARKS:
                chosen |= codes == mark
            others = self.foreign(codes)
            if len(others):
                points = code_points(self.text[start : start + len(codes)])[others]
                chosen[others[np.isin(points, code_points(foreign))]] = True
            found.append(np.flatnonzero(chosen) + start)
        return np.concatenate([np.zeros(0, dtype=np.intp), *found])

    def beyond_blanks(self, places: Places, step: int) -> Places:
        """Returns each place, moved behind (1) or before (-1) the whitespace that is there."""
        text, offset = self.text, min(step, 0)
        found = places.copy()
        moving = np.arange(len(places))
        for _ in range(_BLANK_STEPS):
            if not len(moving):
                break
            codes = self.at(found[moving], offset)
            blank = is_blank(codes)
            for number in self.foreign(codes).tolist():
                blank[number] = text[found[moving[number]] + offset].isspace()
            moving = moving[blank]
            found[moving] += step
        for number in moving.tolist():
            place = int(found[number])
            while 0 <= place + offset < len(text) and text[place + offset].isspace():
                place += step
            found[number] = place
        return found


def candidates(
    characters: Characters,
    foreign_marks: str,
    foreign_breaks: str,
    known_words: frozenset[str],
    months: frozenset[str],
    line_lengths: tuple[int, int],
) -> Candidates:
    """Returns where sentences of a text may end.

    Args:
        characters: Those of the text.
        foreign_marks: Characters beside ".", "!" and "?" that may end a sentence.
        foreign_breaks: Line breaks that are not ASCII.
        known_words: Before a full stop, words that the rules know.
        months: After a full stop, words before which a number is a day.
        line_lengths: Characters up to which a line ends where it ends, and up to which it may.
    """
    places = characters.find(foreign_marks + foreign_breaks)
    codes = characters.at(places, 0)
    is_stop = codes == ord(".")
    marks = characters.among(places, 0, _MARKS)
    for number in characters.foreign(codes).tolist():
        marks[number] = characters.text[places[number]] in foreign_marks
    stops, asked = _plain_stops(characters, places[is_stop], known_words, months)
    asked = np.sort(np.concatenate([asked, places[marks & ~is_stop]]))
    lines = _first_breaks(characters, places[~marks])
    line_ends = characters.beyond_blanks(lines + 1, 1)
    breaks = _plain_breaks(characters, lines, line_ends, line_lengths)
    return Candidates(stops, asked, lines, line_ends, *breaks)


def _plain_stops(
    characters: Characters, places: Places, known_words: frozenset[str], months: frozenset[str]
) -> tuple[Places, Places]:
    """Returns the full stops that end a sentence, and those to be asked about."""
    after, beyond = characters.at(places, 1), characters.at(places, 2)
    blank = is_blank(after)
    begins = ~characters.among(places, -1, _MARKS)
    closed = characters.among(places, 1, _CLOSERS + _MARKS) | (after == FOREIGN)
    # Behind a paragraph's last stop its end decides; behind any other, no small letter may stand.
    paragraph = (after == ord("\n")) & (beyond == ord("\n"))
    small = is_letter(beyond) & (beyond >= ord("a"))
    plain = begins & blank & ~paragraph & ~small
    unclear = is_blank(beyond) | (beyond == FOREIGN) | (beyond == 0)
    unclear |= characters.among(places, 2, _OPENERS)
    unclear |= ~_ends_sentences(characters, places, known_words, months)
    return places[plain & ~unclear], places[(plain & unclear) | (begins & closed)]


def _ends_sentences(
    characters: Characters, places: Places, known_words: frozenset[str], months: frozenset[str]
) -> Flags:
    """Returns whether no rule about the word or number before it keeps a stop from ending."""
    word, length = _words_before(characters, places)
    boundary = characters.at(places - length, -1)
    found = ~_is_one_of(word, _packed(known_words))
    found &= (length > 1) & (boundary != ord(".")) & (boundary != FOREIGN)
    found |= length > LONGEST_WORD
    last = characters.at(places, -1)
    found |= (length == 0) & (last != FOREIGN)
    # A number may be a day, of one or two digits, before a month.
    days = np.flatnonzero(is_digit(last))
    stops = places[days]
    days = days[~(is_digit(characters.at(stops, -2)) & is_digit(characters.at(stops, -3)))]
    found[days[_may_be_months(characters, places[days] + 2, months)]] = False
    return found


def _words_before(characters: Characters, places: Places) -> tuple[Words, Places]:
    """Returns the lowered word of ASCII before each place, packed, and how many letters it has.

    Of a word of more than eight letters the last eight.
    """
    codes = characters.eight_from(places, -8)
    others = is_letter(codes.view(np.uint8)).view(np.uint64) ^ _EACH
    for distance in (8, 16, 32):  # what is no letter, and all before it
        others |= others >> np.uint64(distance)
    letters = others ^ _EACH
    word = (codes | _EACH * np.uint64(0x20)) & letters * np.uint64(0xFF)
    return word, (letters * _EACH >> np.uint64(56)).astype(np.intp)


def _may_be_months(characters: Characters, places: Places, months: frozenset[str]) -> Flags:
    """Returns where a month may begin."""
    words = characters.eight_from(places, 0) | _EACH * np.uint64(0x20)
    found = _is_one_of(words << np.uint64(64 - 8 * _MONTH_LETTERS), _months_begin(months))
    for distance in range(_MONTH_LETTERS):
        found |= characters.at(places, distance) == FOREIGN
    return found


def _is_one_of(words: Words, known: Words) -> Flags:
    """Returns which words are among known ones, which are sorted."""
    return np.asarray(known.take(known.searchsorted(words), mode="clip") == words)


def _first_breaks(characters: Characters, breaks: Places) -> Places:
    """Returns the line breaks with none before them in the same whitespace."""
    before = characters.at(breaks, -1)
    blank, touching = is_blank(before), np.zeros(len(breaks), dtype=bool)
    touching[1:] = breaks[1:] == breaks[:-1] + 1
    first = ~(blank | touching)
    unclear = (blank | (before == FOREIGN)) & ~touching
    for number in np.flatnonzero(unclear).tolist():
        between = characters.text[breaks[number - 1] if number else 0 : breaks[number]]
        first[number] = number == 0 or not between.isspace()
    return breaks[first]


def _plain_breaks(
    characters: Characters, lines: Places, ends: Places, line_lengths: tuple[int, int]
) -> tuple[Flags, Flags]:
    """Returns which breaks of lines end a sentence, and which are to be asked about."""
    feed, carriage = (characters.at(lines, 0) == ord(mark) for mark in "\n\r")
    second = characters.at(lines, 1) == ord("\n")
    paragraph = (feed & second) | (carriage & second & characters.among(lines, 2, b"\r"))
    last, following = characters.at(lines, -1), characters.at(ends, 0)
    # Of other breaks only those between two characters of ASCII, and before no clause's number.
    single = (feed & (ends == lines + 1)) | (carriage & second & (ends == lines + 2))
    single &= ~is_blank(last) & (last != 0) & (last != FOREIGN)
    ended = single & characters.among(lines, -1, _ENDS_LINE)
    plain = single & is_letter(following) & ~ended
    for distance in range(1, 7):
        plain &= ~characters.among(ends, distance, b".)")
    small = following >= ord("a")
    goes_on = plain & (small | characters.among(lines, -1, _GOES_ON))
    # A capital after a line that ends in a small letter: the line's length says what it is.
    short, longest = line_lengths
    lengths = lines - np.concatenate([np.zeros(1, dtype=np.intp), ends])[:-1]
    capital = plain & ~goes_on & is_letter(last) & (last >= ord("a"))
    goes_on |= capital & (lengths > longest)
    ended |= paragraph | (capital & (lengths <= short))
    return ended, ~ended & ~goes_on
