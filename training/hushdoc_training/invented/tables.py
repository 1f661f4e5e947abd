"""Tables: column heads, row heads and cells, ruled or not."""

from __future__ import annotations

from typing import NamedTuple

from hushdoc_training.invented import form_style, phrases, values
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.sheet import Block, Face

_VALUE_TYPES = (
    ("count", 5.0), ("amount", 4.0), ("measure", 4.0), ("percent", 3.0), ("phrase", 2.5),
    ("date", 2.0), ("code", 2.5), ("person", 1.0), ("place", 1.0), ("decimal", 4.0),
    ("period", 0.6), ("yesno", 0.5), ("initials", 0.4), ("company", 0.6),
)  # fmt: skip
_WIDE = {
    "phrase": 2.2, "person": 1.6, "company": 1.8, "place": 1.3, "text": 3.0, "date": 1.1,
    "amount": 1.2,
}  # fmt: skip
_NUMBERS = frozenset({"count", "amount", "measure", "percent", "decimal"})


class Column(NamedTuple):
    """One column: its head, what its cells hold, and where it stands."""

    head: str
    value_type: str
    x0: int
    x1: int
    right: bool


def table(draft: Draft, x0: int, x1: int, y: int, *, rows: int | None = None) -> int:
    """Sets a table and returns where it ends."""
    rng = draft.rng
    most = max(2, min(7, (x1 - x0) // 85))
    columns = _columns(draft, x0, x1, rng.integer(2, most))
    rows = rows or rng.integer(2, 14)
    ruled = rng.weighted(
        (("none", 3.0), ("heads", 3.0), ("rows", 1.5), ("grid", 3.0), ("frame", 1.0))
    )
    top = y
    if rng.flip(0.15) and len(columns) > 2:
        y = _spanning(draft, columns, y)
    heads, y = _heads(draft, columns, y + 2)
    under_heads = y
    titled = columns[0].value_type == "row"
    edges = [top, under_heads]
    for number in range(rows):
        if y > draft.limit:
            break
        last = number == rows - 1 and titled and rng.flip(0.4)
        y = _row(draft, columns, heads, y + 2, number, last=last)
        edges.append(y)
    _lines(draft, columns, edges, ruled)
    return y + 6


def _columns(draft: Draft, x0: int, x1: int, count: int) -> list[Column]:
    rng = draft.rng
    value_types = [rng.weighted(_VALUE_TYPES) for _ in range(count)]
    if rng.flip(0.4):
        value_types[1:] = [rng.weighted(_VALUE_TYPES)] * (count - 1)
    value_types[0] = "row" if rng.flip(0.55) else rng.pick(("phrase", "code", "date", "person"))
    shares = [_WIDE.get(value_type, 1.0) * rng.real(0.85, 1.15) for value_type in value_types]
    if value_types[0] == "row":
        shares[0] = rng.real(1.3, 2.4)
    columns: list[Column] = []
    left, aligned = 0.0, rng.flip(0.5)
    for place, (value_type, share) in enumerate(zip(value_types, shares, strict=True)):
        start = x0 + round((x1 - x0) * left / sum(shares))
        left += share
        stop = x0 + round((x1 - x0) * left / sum(shares))
        right = aligned and value_type in _NUMBERS
        columns.append(
            Column(_head(draft, value_type, place), value_type, start + 4, stop - 5, right)
        )
    return columns


def _head(draft: Draft, value_type: str, place: int) -> str:
    rng = draft.rng
    if value_type == "row" and rng.flip(0.4):
        return ""
    if place and rng.flip(0.12):
        head = rng.pick(("A", "B", "C", "1", "2", "3", "I", "II", "III", "19" + rng.digits(2)))
    elif value_type in ("decimal", "measure") and rng.flip(0.4):
        head = f"{phrases.noun(rng, draft.trade)} ({rng.word('qualities.units')})"
    else:
        wanted = {"decimal": "measure", "row": "phrase"}.get(value_type, value_type)
        head = draft.entry(wanted).label
    return form_style.cased(head, draft.style.case)


def _spanning(draft: Draft, columns: list[Column], y: int) -> int:
    """Sets a head over several columns."""
    first = draft.rng.integer(1, len(columns) - 2)
    x0, x1 = columns[first].x0, columns[-1].x1
    text = form_style.cased(phrases.thing(draft.rng, draft.trade), draft.style.case)
    face = draft.style.key
    if face.wide(text) > x1 - x0:
        return y
    block = draft.sheet.put(
        text, x0, y + 2, face, width=x1 - x0, align="center", role="header", lines=1
    )
    draft.sheet.line(x0, block.y1, x1, block.y1)
    return block.y1 + 2


def _heads(draft: Draft, columns: list[Column], y: int) -> tuple[list[Block | None], int]:
    face, bottom = draft.style.key, y
    heads: list[Block | None] = []
    centred = draft.rng.flip(0.4)
    for column in columns:
        room = column.x1 - column.x0
        small = _fitting(face, column.head, room)
        if not column.head:
            heads.append(None)
            continue
        block = draft.sheet.put(
            column.head,
            column.x0,
            y,
            small,
            width=room,
            align="center" if centred else "right" if column.right else "left",
            lines=3,
            leading=1.2,
            role="question",
        )
        heads.append(block)
        bottom = max(bottom, block.y1)
    return heads, bottom + 2


def _fitting(face: Face, text: str, room: int) -> Face:
    """Returns the face, smaller if the longest word would leave its column."""
    longest = max(text.split(), key=len, default="")
    wide = face.wide(longest)
    if wide <= room:
        return face
    return face.sized(max(9, face.size * room // max(1, wide)))


def _row(
    draft: Draft,
    columns: list[Column],
    heads: list[Block | None],
    y: int,
    number: int,
    *,
    last: bool,
) -> int:
    rng, style = draft.rng, draft.style
    bottom = y + round(style.value.size * style.leading)
    row_head: Block | None = None
    for place, column in enumerate(columns):
        if column.value_type == "row":
            text = rng.pick(("Total", "TOTAL", "Average", "Mean", "Sum")) if last else ""
            text = text or _row_head(draft, number)
            face = _fitting(style.key, text, column.x1 - column.x0)
            row_head = draft.put(text, column.x0, column.x1, y, face, role="question", lines=2)
            bottom = max(bottom, row_head.y1)
            continue
        text = _cell(draft, column.value_type)
        if not text:
            continue
        face = _fitting(style.value, text, column.x1 - column.x0)
        if face.size < style.value.size * 0.72:
            continue
        block = draft.sheet.put(
            text,
            column.x0,
            y + round(0.95 * (style.key.size - face.size)),
            face,
            width=column.x1 - column.x0,
            align="right" if column.right else "left",
            lines=2,
            role="answer",
        )
        bottom = max(bottom, block.y1)
        head = heads[place]
        if row_head is not None and head is not None:
            draft.sheet.cells.append((row_head.segment, head.segment, block.segment))
        elif row_head is not None and len(columns) == 2:
            draft.sheet.pair(row_head, block)
    return bottom


def _row_head(draft: Draft, number: int) -> str:
    rng = draft.rng
    shape = rng.unit()
    if shape < 0.6:
        text = phrases.thing(rng, draft.trade)
    elif shape < 0.8:
        text = draft.entry().label
    elif shape < 0.9:
        text = phrases.brand(rng)
    else:
        text = f"{phrases.noun(rng, draft.trade)} {number + 1}"
    return form_style.cased(text, draft.style.case)


def _cell(draft: Draft, value_type: str) -> str:
    rng = draft.rng
    if rng.flip(min(0.6, draft.blank)):
        return ""
    if value_type == "decimal":
        return values.decimal(rng)
    return draft.answer(value_type, blank=0.0).replace("\n", " ")


def _lines(draft: Draft, columns: list[Column], edges: list[int], ruled: str) -> None:
    sheet = draft.sheet
    x0, x1, top, bottom = columns[0].x0 - 4, columns[-1].x1 + 5, edges[0], edges[-1] + 1
    if ruled == "heads":
        sheet.line(x0, edges[1], x1, edges[1])
        if draft.rng.flip(0.5):
            sheet.line(x0, top, x1, top)
            sheet.line(x0, bottom, x1, bottom)
    elif ruled in ("rows", "grid"):
        for edge in edges:
            sheet.line(x0, edge + (edge != top), x1, edge + (edge != top))
    if ruled in ("grid", "frame"):
        sheet.frame(x0, top, x1, bottom)
        if ruled == "frame":
            sheet.line(x0, edges[1], x1, edges[1])
        for column in columns[1:]:
            sheet.line(column.x0 - 4, top, column.x0 - 4, bottom)
