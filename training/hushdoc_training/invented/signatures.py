"""Signatures: lines to sign on, signed or not, and the sheets on which many people approve."""

from __future__ import annotations

from hushdoc_training.invented import entries, form_style, logos, people, values
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.sheet import Block, Colour, Face
from hushdoc_training.invented.word_lists import word_list

_SECOND = (
    ("Date", "date"),
    ("Date", "date"),
    ("Date", "date"),
    ("Title", "role"),
    ("Date signed", "date"),
    ("Name (typed)", "person"),
    ("Telephone", "phone"),
    ("Initials", "initials"),
)
_INKS: tuple[Colour, ...] = ((15, 15, 20), (25, 35, 120), (20, 30, 80), (40, 40, 40))


def _written(draft: Draft, x0: int, x1: int, y: int) -> Block | None:
    """Signs above y: with a name that can be read, a scribble, or not at all."""
    rng = draft.rng
    manner = rng.unit()
    if manner < max(0.25, draft.blank):
        return None
    if manner < 0.72:
        logos.scrawl(draft.sheet, rng, x0 + 6, x1 - 4, y)
        return None
    face = Face(family="script", size=rng.integer(16, 22), colour=rng.pick(_INKS))
    if manner > 0.93:
        face = draft.style.value
    name = f"{rng.word('people.given_names')} {rng.word('people.surnames')}"
    if face.wide(name) > x1 - x0 - 6:
        return None
    return draft.put(name, x0 + 4, x1, y - round(face.size * 1.1), face, role="answer", lines=1)


def line(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets one line to sign on, mostly with a place for the date."""
    rng, face = draft.rng, draft.style.key
    split = x0 + round((x1 - x0) * rng.real(0.55, 0.78))
    below = rng.flip(0.45)
    label = draft.style.label(rng.word("signatures.labels"))
    other, value_type = rng.pick(_SECOND)
    second = draft.style.label(other)
    y += rng.integer(8, 22)
    bottom = y
    for place, (text, left, right) in enumerate(((label, x0, split - 14), (second, split, x1))):
        if below:
            under = y + face.size + 4
            draft.sheet.line(left, under, right, under)
            key = draft.put(
                text.rstrip(":"), left, right, under + 2, face, role="question", lines=1
            )
            start = left
        else:
            key = draft.put(text, left, right - 30, y, face, role="question", lines=1)
            under, start = y + face.size + 3, key.x1 + 5
            draft.sheet.line(start, under, right, under)
        value = _written(draft, start, right, under - 2) if place == 0 else None
        if place and not rng.flip(max(0.35, draft.blank)):
            filled = entries.short_value(rng, draft.trade, value_type, "m/d/y")
            if draft.style.value.wide(filled) < right - start - 6:
                value = draft.put(
                    filled, start + 6, right, y, draft.style.value, role="answer", lines=1
                )
        draft.sheet.pair(key, value)
        bottom = max(bottom, key.y1)
    return bottom + 4


def lines(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets one or more lines to sign on, maybe in two columns."""
    rng = draft.rng
    count = rng.pick((1, 1, 2, 2, 3, 4))
    if count > 1 and x1 - x0 > 520 and rng.flip(0.4):
        middle = (x0 + x1) // 2
        for _ in range((count + 1) // 2):
            state = line(draft, x0, middle - 15, y)
            y = max(state, line(draft, middle + 15, x1, y))
        return y
    for _ in range(count):
        y = line(draft, x0, x1, y)
    return y


def approvals(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets a table of people who have to sign: their offices, their names, dates."""
    rng, style = draft.rng, draft.style
    heads = rng.pick(
        (
            ("Approvals", "Signature", "Date"),
            ("Title", "Name", "Signature", "Date"),
            ("Name", "Initials", "Date"),
            ("Department", "Approved by", "Date"),
            ("", "Signature", "Date"),
        )
    )
    width, top, ruled = (x1 - x0) // len(heads), y, rng.flip(0.6)
    columns = []
    for place, head in enumerate(heads):
        if head:
            text = form_style.cased(head, style.case)
            x = x0 + place * width + 5
            columns.append(
                draft.put(text, x, x + width - 8, y + 3, style.key, role="question", lines=1)
            )
    y += style.step + 4
    edges = [top, y]
    for role in rng.sample(word_list("qualities.roles"), rng.integer(2, 7)):
        if y > draft.limit:
            break
        text = style.label(role)
        key = draft.put(text, x0 + 5, x0 + width - 6, y + 6, style.key, role="question", lines=2)
        for place, head in enumerate(heads[1:], start=1):
            _approved(draft, head, x0 + place * width + 6, x0 + (place + 1) * width - 4, y + 6)
        y = max(key.y1, y + style.step) + 6
        edges.append(y)
    for edge in edges if ruled else edges[1:]:
        draft.sheet.line(x0 if ruled else x0 + width, edge, x1, edge)
    if ruled:
        for place in range(len(heads) + 1):
            x = min(x1, x0 + place * width)
            draft.sheet.line(x, top, x, y)
    return y + 6


def _approved(draft: Draft, head: str, x0: int, x1: int, y: int) -> None:
    rng, face = draft.rng, draft.style.value
    if head in ("Signature", "Approved by"):
        _written(draft, x0, x1, y + face.size)
    elif not rng.flip(max(0.3, draft.blank)):
        if head == "Date":
            text = values.format_date(values.day(rng, 1970, 2005), "m/d/y")
        else:
            text = people.initials(rng) if head == "Initials" else people.name(rng)
        draft.put(text, x0, x1, y, face, role="answer", lines=1)
