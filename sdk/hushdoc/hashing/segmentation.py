"""Sentences and tokens of a text, by rules alone: nothing here was ever learned from a corpus.

A sentence ends at its full stop, at the end of a paragraph, heading or list item, and at the latest
after MAX_SENTENCE characters. Rules are meant for contracts and reports in languages written with
Latin, Greek, Cyrillic, Arabic, Hebrew, Indic, Chinese, Japanese and Korean script; any text has a
defined result, and the time is linear in its length.

Contract: tables of hashed features are trained on these sentences and tokens, so a change of the
rules is another `VERSION`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.sentence_ends import Characters

VERSION = 1

MAX_SENTENCE = 4096
"""Characters; a longer sentence is cut, after a space where there is one."""

_CLOSERS = "\"'”’»›)\\]}」』】〉》）］｝"
_OPENERS = "\"'“‘„«‹(\\[{「『【〈《（［｛¿¡"
_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"

_STRONG, _WEAK = "。！？｡؟۔।॥։።፧።၊။។៕", ".!?…．"
_MARK_GROUPS = (_STRONG, _WEAK)
_FOREIGN_MARKS, _FOREIGN_BREAKS = f"{_STRONG}…．", "\x85\u2028\u2029"

_CANDIDATE = re.compile(
    rf"(?P<strong>[{_STRONG}]+[{_CLOSERS}]*)"
    rf"|(?P<weak>[{_WEAK}]+[{_CLOSERS}]*)"
    rf"|(?P<line>[{_BREAKS}]\s*)"
)

_BEFORE = re.compile(r"(?:[^\W\d_]+(?:\.[^\W\d_]+)*|\d+)\Z")
"""The word or number that a full stop ends."""

_LOOK_BACK = 24
"""Characters: no abbreviation is longer."""

_BLANKS = re.compile(r"\s*")
_AFTER = re.compile(rf"\s*[{_OPENERS}]*")
_WORD = re.compile(r"[^\W\d_]{1,20}")
_NUMBER = re.compile(r"\d|[IVXLC]+\b|[A-Z]\b|\(")

_ENUMERATOR = re.compile(r"\W*(?:\d+(?:\.\d+)*|[ivxlcdm]+|[^\W\d_])\W*\Z", re.IGNORECASE)
"""What a numbered clause begins with: `1.`, `(a)`, `IV.`, `2.3.`"""

_LONGEST_ENUMERATOR = 16

_ITEM = re.compile(
    r"[•●▪■◦‣⁃∙·*–—-]\s"
    r"|\((?:\d{1,3}|[a-z]{1,2}|[ivxlcdm]{1,6})\)"
    r"|(?:\d{1,3}(?:\.\d{1,3}){0,5}|[a-z]|[ivxlcdm]{1,6})[.)]\s"
    r"|\d{1,3}(?:\.\d{1,3}){1,5}\s+(?-i:[A-Z(])",
    re.IGNORECASE,
)
"""How a line begins that is an item of its own."""

_TITLE = re.compile(
    r"(?:article|section|clause|schedule|exhibit|annex|appendix|artikel|abschnitt|art[íi]culo"
    r"|cl[áa]usula|sezione|articolo|hoofdstuk|§+)\s*[\dIVXLC]",
    re.IGNORECASE,
)
"""How a line begins that is a heading, unless the line before it goes on."""

_PARAGRAPH = re.compile(rf"[\v\f\x1c-\x1e\u2029]|(?>\r\n|[{_BREAKS}])[^\S{_BREAKS}]*[{_BREAKS}]")
_SHORT_LINE, _HEADING_LINE = 40, 80
_GOES_ON = ",-–—&/("


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NEVER = _set(
    # No sentence ends with them.
    "mr mrs ms fa dr prof hon rev messrs mme mlle sr sra srta dott ing avv herr drs mevr dhr e.g "
    "i.e eg ie approx viz vs cf bzw z.b d.h u.a s.o vgl gem ggf inkl bijv t.a.v d.w.z o.a p.ex "
    "p.es u.s.c c.f.r lic ст рис стр см напр им"
)
_BEFORE_NUMBER = _set(
    # Abbreviations before a number, otherwise often words.
    "no nos nr art arts sec secs sect para paras cl ch fig figs vol pp p pg pt ex exh app sched "
    "reg regs stat abs ziff lit núm num pág págs pag cap par ref n blz st bl jan feb febr mar "
    "apr jun jul aug sep sept oct okt nov dec dez г п"
)
_SOMETIMES = _set(
    # A sentence ends with them only where what follows looks like the beginning of one.
    "inc ltd corp co llc llp l.l.c l.p plc gmbh s.a s.r.l s.p.a s.a.s n.v b.v a.g cie bros dept "
    "est etc jr snr esq ph.d m.d b.a u.s u.s.a u.k e.u u.n d.c a.m p.m ltda usw enz т.д т.п др"
)
_STARTERS = _set(
    "the a an this that these those it its in if on upon at by for from to with without as all "
    "any each every no neither either both such there here when where while unless until except "
    "subject notwithstanding however therefore accordingly furthermore we you he she they our "
    "their nothing licensor licensee seller buyer company customer supplier distributor party "
    "parties der die das ein eine diese dieser dieses im wenn soweit le la les un une ce cette "
    "ces il elle si el los las una este esta en het een de deze dit indien"
)
_MONTHS = _set(
    "januar jänner februar märz april mai juni juli august september oktober november dezember "
    "januari februari maart mei augustus december"
)

_KNOWN_WORDS = _NEVER | _BEFORE_NUMBER | _SOMETIMES

_WORD_MARKS = (
    # Marks that continue a word: \w does not know them.
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7-\u06ed\u0900-\u0963\u0966-\u0dff\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20ff\ufe20-\ufe2f\u200c"
)
_ALONE = (
    # Characters of scripts without spaces: each is a token of its own.
    "\u2e80-\u2fdf\u3005-\u3007\u3041-\u30fa\u30fc-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    "\u0e00-\u0e30\u0e32-\u0e33\u0e40-\u0e46\u0e50-\u0e59\u0e80-\u0eb0\u0ebd-\u0ec6\u1000-\u102a"
    "\u1780-\u17b3"
)
_ALONE_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3"
)
_CHARACTERS = rf"(?:[A-Za-z0-9_]++|[^\W{_ALONE}]|[{_WORD_MARKS}])++"
_TOKEN = re.compile(
    rf"[{_ALONE}][{_ALONE_MARKS}{_WORD_MARKS}]*"
    rf"|{_CHARACTERS}(?:(?:['’‐‑-]|(?<=\d)[.,](?=\d)){_CHARACTERS})*"
    r"|\.+|-+|\*+|=+|…+|–+|—+"
    r"|[\U0001f1e6-\U0001f1ff]{2}"
    r"|[^\w\s][\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]*"
    r"(?:\u200d[^\w\s][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*)*"
)

_ASCII_TOKEN = re.compile(
    # The same tokens, found more than twice as fast where all characters are ASCII.
    r"[A-Za-z0-9_]+(?:(?:['-]|(?<=\d)[.,](?=\d))[A-Za-z0-9_]+)*"
    r"|\.+|-+|\*+|=+|[^\w\s\x1c-\x1f]",
    re.ASCII,
)


def sentences(text: str) -> list[tuple[int, int]]:
    """Returns where each sentence starts and stops, in order; none is empty.

    All characters but whitespace belong to exactly one sentence, and no sentence begins or ends
    with whitespace.
    """
    return [(start, stop) for start, stop in sentence_places(text).tolist()]


def sentence_places(text: str) -> npt.NDArray[np.int64]:
    """Returns what `sentences` does as an array [sentences, 2]."""
    import numpy as np

    from hushdoc.hashing import sentence_ends

    characters = sentence_ends.Characters(text)
    ends = _ends(text, characters)
    starts = characters.beyond_blanks(np.concatenate([_places(0), ends[:-1]]), 1)
    stops = characters.beyond_blanks(ends, -1)
    places = np.stack([starts, stops], axis=1).take(np.flatnonzero(stops > starts), axis=0)
    long = np.flatnonzero(places[:, 1] - places[:, 0] > MAX_SENTENCE)
    if not len(long):
        return places
    parts: list[npt.NDArray[np.int64]] = []
    done = 0
    for number in long.tolist():
        parts += [places[done:number], np.array(list(_cut(text, *places[number].tolist())))]
        done = number + 1
    return np.concatenate([*parts, places[done:]])


def tokens(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Returns where each token of a part of the text starts and stops, in order.

    Words stay whole with their inner hyphens and apostrophes, numbers with their points and commas;
    other symbols, and characters of scripts without spaces, are tokens of their own.
    """
    stop = len(text) if end is None else end
    return [found.span() for found in _token(text[start:stop]).finditer(text, start, stop)]


def words(text: str, start: int = 0, end: int | None = None) -> list[str]:
    """Returns the strings that `tokens` marks in a part of the text, but faster."""
    part = text[start : len(text) if end is None else end]
    return _token(part).findall(part)


def _token(part: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if part.isascii() else _TOKEN


def _ends(text: str, characters: Characters) -> npt.NDArray[np.int64]:
    """Returns every place where a sentence ends; the last is the text's end."""
    import numpy as np

    from hushdoc.hashing import sentence_ends

    line_lengths = (_SHORT_LINE, _HEADING_LINE)
    found = sentence_ends.candidates(
        characters, _FOREIGN_MARKS, _FOREIGN_BREAKS, _KNOWN_WORDS, _MONTHS, line_lengths
    )
    asked = _asked_marks(text, found.asked_stops.tolist())
    # What ends soon after another sentence may be a clause's number.
    possible = np.concatenate(
        [_places(0), found.stops + 1, found.line_ends, _places(*(mark.end() for mark in asked))]
    )
    possible.sort()
    before = possible[np.searchsorted(possible, found.stops, side="right") - 1]
    near = found.stops - before < _LONGEST_ENUMERATOR
    asked += _asked_marks(text, found.stops[near].tolist())
    lines = np.flatnonzero(found.asked_lines)
    asked += _asked_marks(text, found.lines[lines].tolist())
    asked.sort(key=lambda mark: mark.start())
    sure = np.concatenate([_places(0), found.stops[~near] + 1, found.line_ends[found.breaks]])
    sure.sort()
    places = _places(*(mark.start() for mark in asked))
    starts = sure[np.searchsorted(sure, places, side="right") - 1].tolist()
    line_ends = np.concatenate([_places(0), found.line_ends])
    line_starts = line_ends[np.searchsorted(found.lines, places)].tolist()
    decided: list[int] = []
    last = 0
    for mark, start, line_start in zip(asked, starts, line_starts, strict=True):
        if _ends_at(text, mark, max(start, last), line_start):
            last = mark.end()
            decided.append(last)
    return np.sort(np.concatenate([sure[1:], _places(*decided, len(text))]))


def _places(*places: int) -> npt.NDArray[np.int64]:
    import numpy as np

    return np.array(places, dtype=np.int64)


def _asked_marks(text: str, places: list[int]) -> list[re.Match[str]]:
    """Returns the candidates that begin at some places, if they do not begin before."""
    found = []
    for place in places:
        before = text[place - 1 : place] or " "
        # First, as a long run of marks would be matched at each of them.
        if any(text[place] in group and before in group for group in _MARK_GROUPS):
            continue
        mark = _CANDIDATE.match(text, place)
        if mark:
            found.append(mark)
    return found


def _ends_at(text: str, found: re.Match[str], start: int, line_start: int) -> bool:
    """Returns whether a sentence that began at start ends with a candidate."""
    match found.lastgroup:
        case "weak":
            return _stops(text, start, found)
        case "line":
            return _breaks(text, line_start, found)
        case _:
            return True


def _stops(text: str, start: int, found: re.Match[str]) -> bool:
    """Returns whether a full stop before whitespace ends the sentence that began at start."""
    stop = found.start()
    if not text[found.end() : found.end() + 1].isspace():
        return False
    after = _AFTER.match(text, found.end())
    place = after.end() if after else found.end()
    if text[place : place + 1].islower() or found.group().startswith("...."):
        return False
    if not found.group().startswith(".") or found.group().startswith(".."):
        return True
    if stop - start < _LONGEST_ENUMERATOR and _ENUMERATOR.match(text, start, stop + 1):
        return False
    before = _BEFORE.search(text, max(start, stop - _LOOK_BACK), stop)
    word = before.group().lower() if before else ""
    next_word = _WORD.match(text, place)
    follows = next_word.group().lower() if next_word else ""
    if word.isdigit():
        return len(word) > 2 or follows not in _MONTHS
    if word in _BEFORE_NUMBER:
        return _NUMBER.match(text, place) is None
    if len(word) == 1 or word in _SOMETIMES:
        return follows in _STARTERS
    return word not in _NEVER


def _breaks(text: str, line_start: int, found: re.Match[str]) -> bool:
    """Returns whether the end of a line ends its sentence."""
    if _PARAGRAPH.search(found.group()):
        return True
    stop = _before_blanks(text, line_start, found.start())
    last = text[stop - 1 : stop]
    if last in (";", ":") or _ITEM.match(text, found.end()):
        return True
    if last in _GOES_ON or text[found.end() : found.end() + 1].islower():
        return False
    if not last.islower() and _TITLE.match(text, found.end()):
        return True
    if stop - line_start > _HEADING_LINE:
        return False
    return stop - line_start <= _SHORT_LINE or _is_heading(text[line_start:stop])


def _is_heading(line: str) -> bool:
    """Returns whether a line is in capitals, or every longer word of it begins with one."""
    if line.isupper():
        return True
    return all(word[0].isupper() for word in _WORD.findall(line) if len(word) > 3)


def _skip_blanks(text: str, start: int) -> int:
    found = _BLANKS.match(text, start)
    return found.end() if found else start


def _before_blanks(text: str, start: int, stop: int) -> int:
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    return stop


def _cut(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yields a sentence in parts of at most MAX_SENTENCE characters."""
    while stop - start > MAX_SENTENCE:
        reach = start + MAX_SENTENCE
        space = text.rfind(" ", start + MAX_SENTENCE // 2, reach)
        end = reach if space < 0 else space
        yield start, _before_blanks(text, start, end)
        start = _skip_blanks(text, end)
    yield start, stop
