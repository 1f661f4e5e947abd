"""Imprints: a company's e-mail address and registration number, where a page has room for them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from hushdoc_training.invented.providers import Provider, provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Face, Mark, Sheet
from hushdoc_training.invented.shops import pattern
from hushdoc_training.invented.word_lists import word_list, word_lists

_KEY = 0x51ED2701
"""Seeds what companies print of themselves; a document's own seed has no say in it."""

_AIR = 8
"""Pixels that stay free around an imprint."""


class Line(NamedTuple):
    """One line of an imprint: what the value is called, the value, and its field."""

    label: str
    text: str
    field: str


@lru_cache(maxsize=4096)
def lines(number: int) -> tuple[Line, ...]:
    """Returns what the provider of this number always tells of itself, maybe nothing."""
    rng, company = Draws(_KEY, number), provider(number)
    registration = pattern(rng.pick(word_lists("imprints.registrations")[company.country]), rng)
    found = [
        Line(rng.pick(word_list("imprints.email")), company.email, "email"),
        Line(
            rng.pick(word_list("imprints.registration_number")), registration, "registration_number"
        ),
    ]
    return tuple(rng.shuffled([line for line in found if rng.flip(0.75)]))


def put(sheet: Sheet, company: Provider, rng: Draws, *, grows: bool) -> None:
    """Sets the imprint of a page's company without the fields that the page has already.

    A page that grows becomes longer by it; on others it stands where nothing else does, if it fits.
    """
    known = {segment.field for segment in sheet.segments}
    missing = [line for line in lines(company.number) if line.field not in known]
    face = Face(family=company.family, size=rng.integer(10, 13))
    step = round(face.size * 1.3)
    width = max((face.wide(f"{line.label} {line.text}") for line in missing), default=0)
    place = _place(sheet, width, step * len(missing), rng, grows=grows)
    if not missing or place is None:
        return
    x, y = place
    for line in missing:
        label = sheet.put(line.label, x, y, face, width=width + _AIR, lines=1)
        start = label.x1 + face.size // 2
        sheet.put(line.text, start, y, face, width=width + _AIR, lines=1, field=line.field)
        y += step
    if grows:
        sheet.height = max(sheet.height, y + 2 * _AIR)


def _place(
    sheet: Sheet, width: int, height: int, rng: Draws, *, grows: bool
) -> tuple[int, int] | None:
    """Returns the left and upper edge of free space, the lowest one at a side or in the middle."""
    room = sheet.right - sheet.left - width
    if room < 0:
        return None
    if grows:
        return sheet.left + room // 2, max(ink.box[3] for ink in sheet.inks) + _AIR
    for x in rng.shuffled((sheet.left, sheet.left + room // 2, sheet.left + room)):
        for y in range(sheet.bottom - height, 0, -_AIR):
            box = (x - _AIR, y - _AIR, x + width + 2 * _AIR, y + height + _AIR)
            if sheet.is_free(*box) and not any(_touches(mark, box) for mark in sheet.marks):
                return x, y
    return None


def _touches(mark: Mark, box: tuple[int, int, int, int]) -> bool:
    """Returns whether a mark reaches into a box."""
    xs, ys = mark.points[::2], mark.points[1::2]
    return min(xs) < box[2] and max(xs) > box[0] and min(ys) < box[3] and max(ys) > box[1]
