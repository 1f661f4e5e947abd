"""Form labels: the ways in which a form sets a label and its value."""

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
    """Sets a label and, right of it or at a tab stop, its value: `text`, or an invented one."""
    face = draft.style.key
    label = draft.style.label(what.label, draft.rng)
    edge = x1 if tab is None or tab - x0 < 50 else tab - 5
    key = draft.put(label, x0, edge, y, face, role="question", lines=3)
    start = max(tab or 0, key.x1 + max(4, face.size // 2))
    filled = draft.answer(what.value_type) if text is None else draft.style.filled(text)
    least = max((draft.style.value.wide(word) for word in filled.split()), default=0)
    if x1 - start < max(least, min(_TIGHT, draft.style.value.wide(filled))) + 2:
        start, top = x0 + 2 * face.size, key.y1
    else:
        top = y
    draft.rule(start - 3, x1, top)
    if not filled:
        draft.sheet.pair(key, None)
        return max(key.y1, top + draft.style.step)
    value = draft.value(filled, start, x1, top, lines=lines, field=field)
    draft.sheet.pair(key, value)
    return max(key.y1, value.y1)


def column(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets labels below one another, values following them or standing at one tab stop."""
    rng, face = draft.rng, draft.style.key
    tab = None
    if rng.flip(0.62):
        longest = max(face.wide(draft.style.label(what.label)) for what in wanted)
        tab = min(x0 + longest + rng.integer(8, 50), x0 + (x1 - x0) * 3 // 5)
    spread = rng.pick((0, 2, 4, 8, 12))
    for what in wanted:
        y = beside(draft, what, x0, x1, y, tab=tab) + spread
    return y


def row(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets labels and their values beside one another on one line."""
    shares = [draft.rng.real(0.7, 1.4) * (1 + 0.02 * len(what.label)) for what in wanted]
    stops, left, bottom = x0, 0.0, y
    for what, share in zip(wanted, shares, strict=True):
        left += share
        stop = x0 + round((x1 - x0) * left / sum(shares))
        bottom = max(bottom, beside(draft, what, stops, stop - 12, y, lines=2))
        stops = stop
    return bottom


def columns(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets two columns of labels and values."""
    middle = x0 + round((x1 - x0) * draft.rng.real(0.42, 0.6))
    half = (len(wanted) + 1) // 2
    left = column(draft, wanted[:half], x0, middle - 14, y)
    if half == len(wanted):
        return left
    return max(left, column(draft, wanted[half:], middle + 6, x1, y))


def stacked(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets small labels above their values, or below the lines that the values stand on."""
    below = draft.rng.flip(0.55)
    small = draft.style.key.sized(max(10, draft.style.key.size - draft.rng.integer(0, 3)))
    width = (x1 - x0) // len(wanted)
    bottom, high = y, round(draft.style.value.size * 1.3)
    for place, what in enumerate(wanted):
        left, right = x0 + place * width, x0 + (place + 1) * width - 14
        text = draft.answer(what.value_type).replace("\n", ", ")
        value: Block | None = None
        if below:
            if text:
                value = draft.put(
                    text, left + 4, right, y, draft.style.value, role="answer", lines=1
                )
            draft.sheet.line(left, y + high, right, y + high)
            label = draft.style.label(what.label).rstrip(":")
            key = draft.put(label, left, right, y + high + 2, small, role="question", lines=2)
            bottom = max(bottom, key.y1)
        else:
            label = draft.style.label(what.label)
            key = draft.put(label, left, right, y, small, role="question", lines=2)
            if text:
                value = draft.put(
                    text, left + 2, right, key.y1, draft.style.value, role="answer", lines=2
                )
            if draft.style.rule != "none":
                draft.sheet.line(left, key.y1 + high, right, key.y1 + high)
            bottom = max(bottom, key.y1 + high + 3, value.y1 if value else 0)
        draft.sheet.pair(key, value)
    return bottom + 4


def leaders(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets values at the right edge, joined to their labels by dots."""
    face = draft.style.key
    for what in wanted:
        text = draft.answer(what.value_type).replace("\n", ", ")
        if draft.style.value.wide(text) > (x1 - x0) * 0.45:
            text = ""
        room = x1 - draft.style.value.wide(text) - 8
        key = draft.put(
            draft.style.label(what.label), x0, room - 30, y, face, role="question", lines=1
        )
        value = None
        if text:
            value = draft.value(text, room + 8, x1 + 2, y, lines=1)
        if room > key.x1 + 20:
            draft.sheet.dots(key.x1 + 6, room, y + face.size)
        draft.sheet.pair(key, value)
        y += draft.style.step
    return y


def passage(draft: Draft, what: Entry, x0: int, x1: int, y: int, *, sentences: int = 2) -> int:
    """Sets a label and an answer of several lines that begins beside it or below it."""
    rng, face = draft.rng, draft.style.key
    key = draft.put(draft.style.label(what.label), x0, x1, y, face, role="question", lines=3)
    rows = rng.integer(1, 4)
    if rng.flip(draft.blank):
        if draft.style.rule != "none" or rng.flip(0.5):
            for number in range(rows):
                start = key.x1 + 6 if number == 0 else x0
                under = y + draft.style.step * number + face.size + 3
                draft.sheet.line(min(start, x1 - 10), under, x1, under)
        draft.sheet.pair(key, None)
        return max(key.y1, y + rows * draft.style.step) + 4
    text = (
        prose.note(rng, draft.trade)
        if sentences == 0
        else prose.paragraph(rng, draft.trade, sentences)
    )
    text, manner = draft.style.filled(text), rng.unit()
    if manner < 0.45 and key.x1 < x1 - 140:
        indent = key.x1 - x0 + face.size // 2
        value = draft.put(
            text, x0, x1, y, draft.style.value, role="answer", beside=face, indent=indent
        )
    elif manner < 0.6 and key.x1 < x0 + (x1 - x0) // 3:
        value = draft.put(
            text, key.x1 + face.size, x1, y, draft.style.value, role="answer", beside=face
        )
    else:
        left = x0 + rng.pick((0, 0, 16, 40))
        value = draft.put(text, left, x1, key.y1 + 2, draft.style.value, role="answer")
    draft.sheet.pair(key, value)
    return max(key.y1, value.y1) + 2


def grid(draft: Draft, x0: int, x1: int, y: int, rows: int) -> int:
    """Sets boxes with a small label in the corner of each and the value below it."""
    rng, style = draft.rng, draft.style
    small = style.key.sized(max(10, min(12, style.key.size - 2)))
    inset = rng.integer(3, 6)
    thick = rng.pick((1, 1, 1, 2))
    for _ in range(rows):
        cells = rng.weighted(((1, 1.0), (2, 3.0), (3, 3.0), (4, 2.0), (5, 0.7)))
        shares = [rng.real(0.6, 1.6) for _ in range(cells)]
        tall, edge, left = 0, x0, 0.0
        placed: list[int] = []
        for share in shares:
            left += share
            stop = x0 + round((x1 - x0) * left / sum(shares))
            what = draft.entry()
            width = stop - edge - 2 * inset
            label = style.label(what.label).rstrip(": ")
            key = draft.put(
                label, edge + inset, edge + inset + width, y + 2, small, role="question", lines=2
            )
            value = None
            text = draft.answer(what.value_type)
            if text and style.value.wide(max(text.split(), key=len)) <= width:
                lines = 3 if width > 150 else 2
                value = draft.put(
                    text,
                    edge + inset + 2,
                    edge + inset + width,
                    key.y1,
                    style.value,
                    role="answer",
                    lines=lines,
                )
            draft.sheet.pair(key, value)
            tall = max(tall, (value or key).y1 - y + (2 if value else style.step))
            placed.append(edge)
            edge = stop
        for left_edge, right_edge in zip(placed, [*placed[1:], x1], strict=True):
            draft.sheet.frame(left_edge, y, right_edge, y + tall, thick=thick)
        y += tall
    return y + 6


def ledger(draft: Draft, wanted: Sequence[Entry], x0: int, x1: int, y: int) -> int:
    """Sets a ruled table of two columns: labels at the left, values at the right."""
    rng, style = draft.rng, draft.style
    split = x0 + round((x1 - x0) * rng.real(0.25, 0.55))
    shade = rng.flip(0.2)
    for what in wanted:
        label = style.label(what.label)
        key = draft.put(label, x0 + 5, split - 5, y + 3, style.key, role="question", lines=2)
        text = draft.answer(what.value_type)
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
    room = draft.rng.integer(60, 150)
    for what in wanted:
        text = draft.answer(what.value_type).replace("\n", ", ")
        label = draft.style.label(what.label).rstrip(": ")
        key = draft.put(label, x0 + room + 8, x1, y, draft.style.key, role="question", lines=2)
        draft.sheet.line(x0, y + draft.style.key.size + 3, x0 + room, y + draft.style.key.size + 3)
        value = None
        if text and draft.style.value.wide(text) <= room:
            value = draft.value(text, x0 + 4, x0 + room + 4, y, lines=1)
        draft.sheet.pair(key, value)
        y = max(key.y1, y + draft.style.step) + 2
    return y


def sentence(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets running text with gaps that somebody has filled in."""
    rng, face, hand = draft.rng, draft.style.body, draft.style.value
    x, blank = x0, face.size // 2
    for piece in rng.word("form_labels.sentences").split("|"):
        value_type, _, name = piece.partition("=")
        if not name:
            for word in piece.split():
                if x + face.wide(word) > x1:
                    x, y = x0, y + draft.style.step
                x = draft.put(word, x, x1 + face.size, y, face, lines=1).x1 + blank
            continue
        text = draft.answer(value_type).replace("\n", ", ")
        wide = max(hand.wide(text), rng.integer(50, 130)) + 6
        if x + wide > x1:
            x, y = x0, y + draft.style.step
        draft.sheet.line(x, y + face.size + 3, min(x + wide, x1), y + face.size + 3)
        if text and x + wide <= x1:
            draft.put(text, x + 3, x1 + face.size, y, hand, role="answer", lines=1, beside=face)
        x = min(x + wide, x1) + blank
    return y + draft.style.step + 4


def some(draft: Draft, x0: int, x1: int, y: int, *, most: int = 9) -> int:
    """Sets a group of labels and values in one of all these ways."""
    rng = draft.rng
    wide = x1 - x0 > 420
    manner = rng.unit()
    if manner < 0.28:
        return column(draft, _wanted(draft, rng.integer(2, most)), x0, x1, y)
    if manner < 0.5 and wide:
        return columns(draft, _wanted(draft, rng.integer(3, most + 3)), x0, x1, y)
    if manner < 0.68:
        for _ in range(rng.integer(1, 4)):
            y = row(draft, _wanted(draft, rng.integer(2, 4 if wide else 2)), x0, x1, y)
            y += rng.pick((0, 3, 6))
        return y
    if manner < 0.8:
        for _ in range(rng.integer(1, 3)):
            y = stacked(draft, _wanted(draft, rng.integer(1, 4 if wide else 2)), x0, x1, y)
        return y
    if manner < 0.83:
        return leaders(draft, _wanted(draft, rng.integer(3, 7)), x0, x1, y)
    if manner < 0.85:
        return behind(draft, _wanted(draft, rng.integer(2, 6)), x0, x1, y)
    if manner < 0.87:
        return sentence(draft, x0, x1, y)
    if manner < 0.93:
        return grid(draft, x0, x1, y, rng.integer(1, 4))
    return ledger(draft, _wanted(draft, rng.integer(2, 7)), x0, x1, y)


def _wanted(draft: Draft, count: int) -> list[Entry]:
    return [draft.entry() for _ in range(count)]
