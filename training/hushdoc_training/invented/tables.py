"""Tables: column heads, row heads and cells, ruled or not."""

from __future__ import annotations

from typing import NamedTuple

from hushdoc_training.invented import look, phrases, values
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.sheet import Block, Face

_KINDS = (
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
    kind: str
    x0: int
    x1: int
    right: bool


def table(draft: Draft, x0: int, x1: int, y: int, *, rows: int | None = None) -> int:
    """Sets a table and returns where it ends."""
    dice = draft.dice
    most = max(2, min(7, (x1 - x0) // 85))
    columns = _columns(draft, x0, x1, dice.integer(2, most))
    rows = rows or dice.integer(2, 14)
    ruled = dice.weighted(
        (("none", 3.0), ("heads", 3.0), ("rows", 1.5), ("grid", 3.0), ("frame", 1.0))
    )
    top = y
    if dice.chance(0.15) and len(columns) > 2:
        y = _spanning(draft, columns, y)
    heads, y = _heads(draft, columns, y + 2)
    under_heads = y
    titled = columns[0].kind == "row"
    edges = [top, under_heads]
    for number in range(rows):
        if y > draft.limit:
            break
        last = number == rows - 1 and titled and dice.chance(0.4)
        y = _row(draft, columns, heads, y + 2, number, last=last)
        edges.append(y)
    _lines(draft, columns, edges, ruled)
    return y + 6


def _columns(draft: Draft, x0: int, x1: int, count: int) -> list[Column]:
    dice = draft.dice
    kinds = [dice.weighted(_KINDS) for _ in range(count)]
    if dice.chance(0.4):
        kinds[1:] = [dice.weighted(_KINDS)] * (count - 1)
    kinds[0] = "row" if dice.chance(0.55) else dice.pick(("phrase", "code", "date", "person"))
    shares = [_WIDE.get(kind, 1.0) * dice.real(0.85, 1.15) for kind in kinds]
    if kinds[0] == "row":
        shares[0] = dice.real(1.3, 2.4)
    columns: list[Column] = []
    left, aligned = 0.0, dice.chance(0.5)
    for place, (kind, share) in enumerate(zip(kinds, shares, strict=True)):
        start = x0 + round((x1 - x0) * left / sum(shares))
        left += share
        stop = x0 + round((x1 - x0) * left / sum(shares))
        right = aligned and kind in _NUMBERS
        columns.append(Column(_head(draft, kind, place), kind, start + 4, stop - 5, right))
    return columns


def _head(draft: Draft, kind: str, place: int) -> str:
    dice = draft.dice
    if kind == "row" and dice.chance(0.4):
        return ""
    if place and dice.chance(0.12):
        head = dice.pick(("A", "B", "C", "1", "2", "3", "I", "II", "III", "19" + dice.digits(2)))
    elif kind in ("decimal", "measure") and dice.chance(0.4):
        head = f"{phrases.noun(dice, draft.trade)} ({dice.word('qualities.units')})"
    else:
        wanted = {"decimal": "measure", "row": "phrase"}.get(kind, kind)
        head = draft.entry(wanted).label
    return look.cased(head, draft.look.case)


def _spanning(draft: Draft, columns: list[Column], y: int) -> int:
    """Sets a head over several columns."""
    first = draft.dice.integer(1, len(columns) - 2)
    x0, x1 = columns[first].x0, columns[-1].x1
    text = look.cased(phrases.thing(draft.dice, draft.trade), draft.look.case)
    face = draft.look.key
    if face.wide(text) > x1 - x0:
        return y
    block = draft.sheet.put(
        text, x0, y + 2, face, width=x1 - x0, align="center", role="header", lines=1
    )
    draft.sheet.line(x0, block.y1, x1, block.y1)
    return block.y1 + 2


def _heads(draft: Draft, columns: list[Column], y: int) -> tuple[list[Block | None], int]:
    face, bottom = draft.look.key, y
    heads: list[Block | None] = []
    centred = draft.dice.chance(0.4)
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
    dice, look_ = draft.dice, draft.look
    bottom = y + round(look_.value.size * look_.leading)
    row_head: Block | None = None
    for place, column in enumerate(columns):
        if column.kind == "row":
            text = dice.pick(("Total", "TOTAL", "Average", "Mean", "Sum")) if last else ""
            text = text or _row_head(draft, number)
            face = _fitting(look_.key, text, column.x1 - column.x0)
            row_head = draft.put(text, column.x0, column.x1, y, face, role="question", lines=2)
            bottom = max(bottom, row_head.y1)
            continue
        text = _cell(draft, column.kind)
        if not text:
            continue
        face = _fitting(look_.value, text, column.x1 - column.x0)
        if face.size < look_.value.size * 0.72:
            continue
        block = draft.sheet.put(
            text,
            column.x0,
            y + round(0.95 * (look_.key.size - face.size)),
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
    dice = draft.dice
    shape = dice.unit()
    if shape < 0.6:
        text = phrases.thing(dice, draft.trade)
    elif shape < 0.8:
        text = draft.entry().label
    elif shape < 0.9:
        text = phrases.brand(dice)
    else:
        text = f"{phrases.noun(dice, draft.trade)} {number + 1}"
    return look.cased(text, draft.look.case)


def _cell(draft: Draft, kind: str) -> str:
    dice = draft.dice
    if dice.chance(min(0.6, draft.blank)):
        return ""
    if kind == "decimal":
        return values.decimal(dice)
    return draft.answer(kind, blank=0.0).replace("\n", " ")


def _lines(draft: Draft, columns: list[Column], edges: list[int], ruled: str) -> None:
    sheet = draft.sheet
    x0, x1, top, bottom = columns[0].x0 - 4, columns[-1].x1 + 5, edges[0], edges[-1] + 1
    if ruled == "heads":
        sheet.line(x0, edges[1], x1, edges[1])
        if draft.dice.chance(0.5):
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
