"""Keys: the ways in which forms set a label and its value."""

from __future__ import annotations

from collections.abc import Sequence

from hushdoc_training.invented import prose
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.entries import Entry
from hushdoc_training.invented.sheet import Block

_TIGHT = 56
"""A value gets at least this many pixels, or the next line."""


def beside(
    draft: Draft,
    what: Entry,
    x0: int,
    x1: int,
    y: int,
    *,
    tab: int | None = None,
    lines: int = 2,
    field: str | None = None,
    text: str | None = None,
) -> int:
    """Sets a label with its value to the right, at a tab stop if one is given; returns the end.

    Args:
        draft: The form.
        what: What is asked for.
        x0: The left edge.
        x1: The right edge.
        y: The top.
        tab: Where values begin.
        lines: How many lines a value may take.
        field: What the value states about the document.
        text: The value, if it is not to be invented.
    """
    face = draft.look.key
    label = draft.look.label(what.label, draft.dice)
    edge = x1 if tab is None or tab - x0 < 50 else tab - 5
    key = draft.put(label, x0, edge, y, face, role="question", lines=3)
    start = max(tab or 0, key.x1 + max(4, face.size // 2))
    filled = draft.answer(what.kind) if text is None else draft.look.filled(text)
    least = max((draft.look.value.wide(word) for word in filled.split()), default=0)
    if x1 - start < max(least, min(_TIGHT, draft.look.value.wide(filled))) + 2:
        start, top = x0 + 2 * face.size, key.y1
    else:
        top = y
    draft.rule(start - 3, x1, top)
    if not filled:
        draft.sheet.pair(key, None)
        return max(key.y1, top + draft.look.step)
    value = draft.value(filled, start, x1, top, lines=lines, field=field)
    draft.sheet.pair(key, value)
    return max(key.y1, value.y1)


def column(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets labels below one another, values following them or standing at one tab stop."""
    dice, face = draft.dice, draft.look.key
    tab = None
    if dice.chance(0.62):
        longest = max(face.wide(draft.look.label(what.label)) for what in wanted)
        tab = min(x0 + longest + dice.integer(8, 50), x0 + (x1 - x0) * 3 // 5)
    spread = dice.pick((0, 2, 4, 8, 12))
    for what in wanted:
        y = beside(draft, what, x0, x1, y, tab=tab) + spread
    return y


def row(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets labels and their values beside one another on one line."""
    shares = [draft.dice.real(0.7, 1.4) * (1 + 0.02 * len(what.label)) for what in wanted]
    stops, left, bottom = x0, 0.0, y
    for what, share in zip(wanted, shares, strict=True):
        left += share
        stop = x0 + round((x1 - x0) * left / sum(shares))
        bottom = max(bottom, beside(draft, what, stops, stop - 12, y, lines=2))
        stops = stop
    return bottom


def columns(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets two columns of labels and values."""
    middle = x0 + round((x1 - x0) * draft.dice.real(0.42, 0.6))
    half = (len(wanted) + 1) // 2
    left = column(draft, wanted[:half], x0, middle - 14, y)
    if half == len(wanted):
        return left
    return max(left, column(draft, wanted[half:], middle + 6, x1, y))


def stacked(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets small labels above their values, or below the lines that the values stand on."""
    below = draft.dice.chance(0.55)
    small = draft.look.key.sized(max(10, draft.look.key.size - draft.dice.integer(0, 3)))
    width = (x1 - x0) // len(wanted)
    bottom, high = y, round(draft.look.value.size * 1.3)
    for place, what in enumerate(wanted):
        left, right = x0 + place * width, x0 + (place + 1) * width - 14
        text = draft.answer(what.kind).replace("\n", ", ")
        value: Block | None = None
        if below:
            if text:
                value = draft.put(
                    text, left + 4, right, y, draft.look.value, role="answer", lines=1
                )
            draft.sheet.line(left, y + high, right, y + high)
            label = draft.look.label(what.label).rstrip(":")
            key = draft.put(label, left, right, y + high + 2, small, role="question", lines=2)
            bottom = max(bottom, key.y1)
        else:
            label = draft.look.label(what.label)
            key = draft.put(label, left, right, y, small, role="question", lines=2)
            if text:
                value = draft.put(
                    text, left + 2, right, key.y1, draft.look.value, role="answer", lines=2
                )
            if draft.look.rule != "none":
                draft.sheet.line(left, key.y1 + high, right, key.y1 + high)
            bottom = max(bottom, key.y1 + high + 3, value.y1 if value else 0)
        draft.sheet.pair(key, value)
    return bottom + 4


def leaders(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets values at the right edge, joined to their labels by dots."""
    face = draft.look.key
    for what in wanted:
        text = draft.answer(what.kind).replace("\n", ", ")
        if draft.look.value.wide(text) > (x1 - x0) * 0.45:
            text = ""
        room = x1 - draft.look.value.wide(text) - 8
        key = draft.put(
            draft.look.label(what.label), x0, room - 30, y, face, role="question", lines=1
        )
        value = None
        if text:
            value = draft.value(text, room + 8, x1 + 2, y, lines=1)
        if room > key.x1 + 20:
            draft.sheet.dots(key.x1 + 6, room, y + face.size)
        draft.sheet.pair(key, value)
        y += draft.look.step
    return y


def passage(draft: Draft, what: Entry, x0: int, x1: int, y: int, *, sentences: int = 2) -> int:
    """Sets a label and an answer of several lines that begins beside it or below it."""
    dice, face = draft.dice, draft.look.key
    key = draft.put(draft.look.label(what.label), x0, x1, y, face, role="question", lines=3)
    rows = dice.integer(1, 4)
    if dice.chance(draft.blank):
        if draft.look.rule != "none" or dice.chance(0.5):
            for number in range(rows):
                start = key.x1 + 6 if number == 0 else x0
                under = y + draft.look.step * number + face.size + 3
                draft.sheet.line(min(start, x1 - 10), under, x1, under)
        draft.sheet.pair(key, None)
        return max(key.y1, y + rows * draft.look.step) + 4
    text = (
        prose.note(dice, draft.trade)
        if sentences == 0
        else prose.paragraph(dice, draft.trade, sentences)
    )
    text, manner = draft.look.filled(text), dice.unit()
    if manner < 0.45 and key.x1 < x1 - 140:
        indent = key.x1 - x0 + face.size // 2
        value = draft.put(
            text, x0, x1, y, draft.look.value, role="answer", beside=face, indent=indent
        )
    elif manner < 0.6 and key.x1 < x0 + (x1 - x0) // 3:
        value = draft.put(
            text, key.x1 + face.size, x1, y, draft.look.value, role="answer", beside=face
        )
    else:
        left = x0 + dice.pick((0, 0, 16, 40))
        value = draft.put(text, left, x1, key.y1 + 2, draft.look.value, role="answer")
    draft.sheet.pair(key, value)
    return max(key.y1, value.y1) + 2


def grid(draft: Draft, x0: int, x1: int, y: int, rows: int) -> int:
    """Sets boxes with a small label in the corner of each and the value below it."""
    dice, look = draft.dice, draft.look
    small = look.key.sized(max(10, min(12, look.key.size - 2)))
    inset = dice.integer(3, 6)
    thick = dice.pick((1, 1, 1, 2))
    for _ in range(rows):
        cells = dice.weighted(((1, 1.0), (2, 3.0), (3, 3.0), (4, 2.0), (5, 0.7)))
        shares = [dice.real(0.6, 1.6) for _ in range(cells)]
        tall, edge, left = 0, x0, 0.0
        placed: list[int] = []
        for share in shares:
            left += share
            stop = x0 + round((x1 - x0) * left / sum(shares))
            what = draft.entry()
            width = stop - edge - 2 * inset
            label = look.label(what.label).rstrip(": ")
            key = draft.put(
                label, edge + inset, edge + inset + width, y + 2, small, role="question", lines=2
            )
            value = None
            text = draft.answer(what.kind)
            if text and look.value.wide(max(text.split(), key=len)) <= width:
                lines = 3 if width > 150 else 2
                value = draft.put(
                    text,
                    edge + inset + 2,
                    edge + inset + width,
                    key.y1,
                    look.value,
                    role="answer",
                    lines=lines,
                )
            draft.sheet.pair(key, value)
            tall = max(tall, (value or key).y1 - y + (2 if value else look.step))
            placed.append(edge)
            edge = stop
        for left_edge, right_edge in zip(placed, [*placed[1:], x1], strict=True):
            draft.sheet.frame(left_edge, y, right_edge, y + tall, thick=thick)
        y += tall
    return y + 6


def ledger(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets a ruled table of two columns: labels at the left, values at the right."""
    dice, look = draft.dice, draft.look
    split = x0 + round((x1 - x0) * dice.real(0.25, 0.55))
    shade = dice.chance(0.2)
    for what in wanted:
        label = look.label(what.label)
        key = draft.put(label, x0 + 5, split - 5, y + 3, look.key, role="question", lines=2)
        text = draft.answer(what.kind)
        value = draft.value(text, split + 6, x1 - 4, y + 3) if text else None
        draft.sheet.pair(key, value)
        bottom = max(key.y1, value.y1 if value else 0) + 2
        if shade:
            draft.sheet.frame(x0, y, split, bottom, fill=(225, 225, 225), thick=0)
        draft.sheet.frame(x0, y, split, bottom)
        draft.sheet.frame(split, y, x1, bottom)
        y = bottom
    return y + 6


def behind(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets values on short lines at the left, each followed by its label."""
    room = draft.dice.integer(60, 150)
    for what in wanted:
        text = draft.answer(what.kind).replace("\n", ", ")
        label = draft.look.label(what.label).rstrip(": ")
        key = draft.put(label, x0 + room + 8, x1, y, draft.look.key, role="question", lines=2)
        draft.sheet.line(x0, y + draft.look.key.size + 3, x0 + room, y + draft.look.key.size + 3)
        value = None
        if text and draft.look.value.wide(text) <= room:
            value = draft.value(text, x0 + 4, x0 + room + 4, y, lines=1)
        draft.sheet.pair(key, value)
        y = max(key.y1, y + draft.look.step) + 2
    return y


def sentence(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets running text with gaps that somebody has filled in."""
    dice, face, hand = draft.dice, draft.look.body, draft.look.value
    x, blank = x0, face.size // 2
    for piece in dice.word("form_labels.sentences").split("|"):
        kind, _, name = piece.partition("=")
        if not name:
            for word in piece.split():
                if x + face.wide(word) > x1:
                    x, y = x0, y + draft.look.step
                x = draft.put(word, x, x1 + face.size, y, face, lines=1).x1 + blank
            continue
        text = draft.answer(kind).replace("\n", ", ")
        wide = max(hand.wide(text), dice.integer(50, 130)) + 6
        if x + wide > x1:
            x, y = x0, y + draft.look.step
        draft.sheet.line(x, y + face.size + 3, min(x + wide, x1), y + face.size + 3)
        if text and x + wide <= x1:
            draft.put(text, x + 3, x1 + face.size, y, hand, role="answer", lines=1, beside=face)
        x = min(x + wide, x1) + blank
    return y + draft.look.step + 4


def some(draft: Draft, x0: int, x1: int, y: int, *, most: int = 9) -> int:
    """Sets a group of labels and values in one of all these ways."""
    dice = draft.dice
    wide = x1 - x0 > 420
    manner = dice.unit()
    if manner < 0.28:
        return column(draft, _wanted(draft, dice.integer(2, most)), x0, x1, y)
    if manner < 0.5 and wide:
        return columns(draft, _wanted(draft, dice.integer(3, most + 3)), x0, x1, y)
    if manner < 0.68:
        for _ in range(dice.integer(1, 4)):
            y = row(draft, _wanted(draft, dice.integer(2, 4 if wide else 2)), x0, x1, y)
            y += dice.pick((0, 3, 6))
        return y
    if manner < 0.8:
        for _ in range(dice.integer(1, 3)):
            y = stacked(draft, _wanted(draft, dice.integer(1, 4 if wide else 2)), x0, x1, y)
        return y
    if manner < 0.83:
        return leaders(draft, _wanted(draft, dice.integer(3, 7)), x0, x1, y)
    if manner < 0.85:
        return behind(draft, _wanted(draft, dice.integer(2, 6)), x0, x1, y)
    if manner < 0.87:
        return sentence(draft, x0, x1, y)
    if manner < 0.93:
        return grid(draft, x0, x1, y, dice.integer(1, 4))
    return ledger(draft, _wanted(draft, dice.integer(2, 7)), x0, x1, y)


def _wanted(draft: Draft, count: int) -> list[Entry]:
    return [draft.entry() for _ in range(count)]
