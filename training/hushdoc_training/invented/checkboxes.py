"""Checkboxes: options with boxes, tables of yes and no, and rating scales, ticked or not."""

from __future__ import annotations

from collections.abc import Sequence

from hushdoc_training.invented import form_style, phrases, places, prose
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.sheet import NOTHING, Block
from hushdoc_training.invented.word_lists import word_list

BOXES = (("drawn", 4.0), ("[]", 2.0), ("()", 1.5), ("glyph", 1.0), ("blank", 3.0))
"""How boxes are made: drawn, of brackets, as a sign, or a short line to write an X on."""


def options(draft: Draft) -> list[str]:
    """Returns what can be chosen among."""
    rng = draft.rng
    shape = rng.unit()
    if shape < 0.5:
        found = rng.word("checkboxes.option_sets").split(",")
    elif shape < 0.75:
        found = [phrases.thing(rng, draft.trade) for _ in range(rng.integer(2, 6))]
    elif shape < 0.85:
        found = rng.sample(word_list("qualities.departments"), rng.integer(2, 8))
    elif shape < 0.92:
        found = [places.town(rng) for _ in range(rng.integer(2, 5))]
    else:
        found = [phrases.plural(phrases.noun(rng, draft.trade)) for _ in range(rng.integer(2, 9))]
    return [form_style.cased(text, draft.style.case) for text in found]


def box(draft: Draft, x: int, y: int, ticked: bool) -> int:
    """Sets one box and its tick and returns where text may begin."""
    face, rng, manner = draft.style.key, draft.rng, draft.boxes
    side = round(face.size * 0.85)
    if manner in ("drawn", "blank"):
        if manner == "drawn":
            draft.sheet.frame(x, y + 3, x + side, y + 3 + side)
        else:
            side = face.size * 2
            draft.sheet.line(x, y + face.size + 1, x + side, y + face.size + 1)
        if ticked:
            pen = draft.style.value.sized(face.size)
            wide = pen.wide("X")
            text = "✓" if draft.style.value.family == "sans" and rng.flip(0.3) else "X"
            draft.put(text, x + (side - wide) // 2, x + side + 30, y, pen, role="answer", lines=1)
        return x + side + face.size // 2
    if manner == "glyph":
        text = "☒" if ticked else "☐"
    else:
        mark = rng.pick(("X", "X", "x")) if ticked else ""
        text = f"{manner[0]}{mark or ' '}{manner[1]}"
    wide = face.wide("[ X ]")
    block = draft.put(text, x, x + wide + 30, y, face, role="answer" if ticked else None, lines=1)
    return max(block.x1, x + side) + face.size // 3


def choice(draft: Draft, x0: int, x1: int, y: int, *, found: Sequence[str] | None = None) -> int:
    """Sets a question and its options, in lines or below one another."""
    rng, face = draft.rng, draft.style.key
    found = found or options(draft)
    label = draft.entry("phrase").label
    key: Block | None = None
    start, top = x0, y
    if rng.flip(0.8):
        key = draft.put(draft.style.label(label), x0, x1, y, face, role="question", lines=2)
        if rng.flip(0.65) and key.x1 < x0 + (x1 - x0) // 2:
            start = key.x1 + face.size
        else:
            start, top = x0 + rng.pick((0, 15, 30)), key.y1
    ticked = _ticked(draft, len(found))
    spread = _in_lines if rng.flip(0.55) else _in_columns
    blocks = spread(draft, found, ticked, start, x1, top)
    bottom = max(block.y1 for block in blocks)
    if key is None:
        return bottom + 3
    for place in sorted(ticked):
        draft.sheet.pair(key, blocks[place])
    return max(bottom, key.y1) + 3


def _ticked(draft: Draft, count: int) -> set[int]:
    rng = draft.rng
    if rng.flip(draft.blank):
        return set()
    return {rng.integer(0, count - 1) for _ in range(rng.pick((1, 1, 1, 2)))}


def _option(draft: Draft, text: str, ticked: bool, x: int, x1: int, y: int, behind: bool) -> Block:
    """Sets an option with its box before or behind it."""
    if behind:
        label = draft.put(text, x, x1, y, draft.style.key, role="question", lines=2)
        return label._replace(x1=box(draft, label.x1 + 6, y, ticked))
    start = box(draft, x, y, ticked)
    return draft.put(text, start, x1, y, draft.style.key, role="question", lines=2)


def _in_lines(
    draft: Draft, found: Sequence[str], ticked: set[int], x0: int, x1: int, y: int
) -> list[Block]:
    face, x, blocks = draft.style.key, x0, list[Block]()
    behind = draft.rng.flip(0.2)
    spread = draft.rng.integer(12, 34)
    for place, text in enumerate(found):
        wide = face.wide(text) + face.size * 4
        if x > x0 and x + wide > x1:
            x, y = x0, max(block.y1 for block in blocks) + 2
        blocks.append(_option(draft, text, place in ticked, x, x1, y, behind))
        x = blocks[-1].x1 + spread
    return blocks


def _in_columns(
    draft: Draft, found: Sequence[str], ticked: set[int], x0: int, x1: int, y: int
) -> list[Block]:
    face = draft.style.key
    widest = max(face.wide(text) for text in found) + face.size * 4
    most = max(1, min(4, (x1 - x0) // widest))
    columns = draft.rng.integer(1, most)
    width, blocks = (x1 - x0) // columns, list[Block]()
    for place, text in enumerate(found):
        if place and place % columns == 0:
            y = max(block.y1 for block in blocks)
        x = x0 + place % columns * width
        blocks.append(_option(draft, text, place in ticked, x, x + width - 8, y, False))
    return blocks


def yes_no(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets a table of questions with a column for each answer."""
    rng, face = draft.rng, draft.style.key
    heads = rng.pick(
        (
            ("Yes", "No"),
            ("YES", "NO"),
            ("Yes", "No", "N/A"),
            ("Pass", "Fail"),
            ("Good", "Fair", "Poor"),
            ("Agree", "Neutral", "Disagree"),
        )
    )
    width = max(face.wide(head) for head in heads) + 24
    split = x1 - width * len(heads)
    ruled = rng.flip(0.4)
    top = y
    blocks = [
        draft.sheet.put(
            head, split + place * width, y + 2, face, width=width, align="center", role="question"
        )
        for place, head in enumerate(heads)
    ]
    y = blocks[0].y1 + 2
    for _ in range(rng.integer(2, 8)):
        if y > draft.limit:
            break
        if ruled:
            draft.sheet.line(x0, y, x1, y)
        text = form_style.cased(prose.question(rng, draft.trade), "sentence")
        key = draft.put(text, x0 + 3, split - 10, y + 2, face, role="question", lines=3)
        chosen = rng.integer(0, len(heads) - 1)
        if not rng.flip(draft.blank):
            mark = rng.pick(("X", "X", "x", "✓", "XX"))
            tick = draft.sheet.put(
                mark,
                split + chosen * width,
                y + 2,
                draft.style.value.sized(face.size),
                width=width,
                align="center",
                role="answer",
            )
            if tick.segment != NOTHING:
                draft.sheet.pair(key, blocks[chosen])
        y = key.y1 + 2
    if ruled:
        for place in range(len(heads) + 1):
            draft.sheet.line(split + place * width, top, split + place * width, y)
        draft.sheet.frame(x0, top, x1, y)
    return y + 6


def rating(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets a scale of numbers of which one may be circled."""
    rng, face = draft.rng, draft.style.key
    text = prose.question(rng, draft.trade)
    key = draft.put(text, x0, x1, y, face, role="question", lines=3)
    y = key.y1 + 2
    most, x = rng.pick((4, 5, 5, 7, 10)), x0 + rng.pick((10, 40, 80))
    chosen = NOTHING if rng.flip(draft.blank) else rng.integer(1, most)
    ends = rng.pick((("Poor", "Excellent"), ("Low", "High"), ("Never", "Always"), ("", "")))
    if ends[0]:
        x = draft.put(ends[0], x, x1, y, face).x1 + 20
    for number in range(1, most + 1):
        role = "answer" if number == chosen else None
        block = draft.put(str(number), x, x1, y, face, role="answer" if role else None)
        if number == chosen:
            draft.sheet.ellipse(x - 6, y - 1, block.x1 + 6, y + round(face.size * 1.4))
            draft.sheet.pair(key, block)
        x = block.x1 + 26
    if ends[1]:
        draft.put(ends[1], x, x1, y, face)
    return y + draft.style.step + 2
