"""Furniture: what stands around a form. Letterheads, titles, page numbers, stamps and codes."""

from __future__ import annotations

from collections.abc import Callable

from hushdoc_training.invented import logos, look, people, phrases, prose, values
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.sheet import Align, Colour, Face, Role

_SIDES: tuple[Align, ...] = ("left", "center", "center", "right")
_CENTRED: tuple[Align, ...] = ("center", "center", "center", "left")
_STAMP_INKS: tuple[Colour, ...] = ((150, 30, 40), (40, 50, 130), (60, 60, 60), (30, 30, 30))


def letterhead(draft: Draft, y: int) -> int:
    """Sets the issuer's name, with or without its address."""
    dice, provider, sheet = draft.dice, draft.provider, draft.sheet
    face = Face(
        family=provider.family,
        size=round(draft.look.body.size * dice.real(1.0, 1.9)),
        bold=dice.chance(0.6),
    )
    name = provider.name.upper() if provider.habits[1] < 0.45 else provider.name
    role: Role | None = "header" if face.size >= draft.look.body.size * 1.3 or face.bold else None
    align: Align = dice.pick(_SIDES)
    x = {"left": draft.left, "center": sheet.width // 2, "right": draft.right}[align]
    if align == "left" and dice.chance(0.4):
        side = face.size * 2
        logos.logo(sheet, provider, x, y, side, (30, 30, 30))
        x += side + 12
    name_block = sheet.put(name, x, y, face, align=align, role=role, field="provider_name", lines=1)
    y = name_block.y1
    if dice.chance(0.55):
        small = draft.look.body.sized(max(10, draft.look.body.size - 2))
        lines = [provider.street, provider.town]
        if dice.chance(0.5):
            text = f"{provider.street}, {provider.town}"
            y = sheet.put(text, x, y, small, align=align, field="provider_address", lines=1).y1
        else:
            text = "\n".join(lines)
            y = sheet.put(text, x, y, small, align=align, field="provider_address").y1
        if dice.chance(0.4):
            y = sheet.put(f"Tel. {provider.phone}", x, y, small, align=align, lines=1).y1
    if dice.chance(0.25):
        sheet.line(draft.left, y + 4, draft.right, y + 4, thick=dice.integer(1, 3))
        y += 6
    return y + dice.integer(4, 22)


def title(draft: Draft, y: int, text: str) -> int:
    """Sets the form's title in one or two lines."""
    dice, sheet = draft.dice, draft.sheet
    align: Align = dice.pick(_CENTRED)
    x = sheet.width // 2 if align == "center" else draft.left
    face = draft.look.title
    while face.size > 12 and face.wide(text) > draft.right - draft.left:
        face = face.sized(face.size - 2)
    shown = look.cased(text, draft.look.title_case)
    block = sheet.put(shown, x, y, face, align=align, role="header", lines=2)
    if dice.chance(0.12):
        wide = face.wide(shown)
        left = x - wide // 2 if align == "center" else x
        sheet.line(left, block.y1, left + wide, block.y1)
    if dice.chance(0.1) and align == "center":
        half = face.wide(shown) // 2 + 14
        if x - half > 8:
            sheet.frame(x - half, y - 4, x + half, block.y1 + 3, thick=2)
    y = block.y1
    if dice.chance(0.25):
        second = phrases.headline(dice, draft.trade)
        block = sheet.put(
            look.cased(second, draft.look.head_case),
            x,
            y + 2,
            draft.look.head,
            align=align,
            role="header",
            lines=2,
        )
        y = block.y1
    return y + dice.integer(6, 24)


def heading(draft: Draft, x0: int, x1: int, y: int, text: str | None = None) -> int:
    """Sets the title of a section: plain, underlined, centred or on a bar."""
    dice, sheet, face = draft.dice, draft.sheet, draft.look.head
    text = text or draft.heading()
    if dice.chance(0.25):
        text = f"{dice.pick(('I', 'II', 'III', 'A', 'B', 'C', '1', '2', '3'))}. {text}"
    y += dice.integer(2, 10)
    manner = dice.unit()
    inset = 5 if manner < 0.25 else 0
    align: Align = dice.pick(("left", "left", "center"))
    if manner < 0.25:
        dark = dice.chance(0.3)
        fill: Colour = (40, 40, 40) if dark else dice.pick(((215, 215, 215), (235, 235, 235)))
        bar = round(face.size * 1.5)
        sheet.frame(x0, y, x1, y + bar, fill=fill, thick=0 if dark else 1)
        if dark:
            face = Face(family=face.family, size=face.size, bold=True, colour=(250, 250, 250))
        y += 2
    block = sheet.put(
        text,
        x0 + inset,
        y,
        face,
        width=x1 - x0 - 2 * inset,
        align=align,
        role="header",
        lines=2,
    )
    if 0.25 <= manner < 0.45 and align == "left" and block.segment >= 0:
        sheet.line(x0, block.y1 - 2, block.x1, block.y1 - 2)
    elif 0.45 <= manner < 0.55:
        sheet.line(x0, block.y1, x1, block.y1)
    return block.y1 + dice.integer(2, 8)


def fax_line(draft: Draft) -> None:
    """Sets the line that a fax machine prints along the upper edge."""
    dice = draft.dice
    face = Face(family=dice.pick(("mono", "typewriter", "sans")), size=dice.integer(10, 12))
    when = values.spell_date(values.day(dice, 1985, 2003), dice.pick(("mm/dd/yy", "dd-MON-yy")))
    parts = [
        f"{when} {dice.integer(0, 23):02d}:{dice.integer(0, 59):02d}",
        f"FAX {values.phone(dice, dice.integer(0, 5))}",
        draft.provider.name.upper(),
        dice.pick(
            (f"{dice.integer(1, 9):03d}/{dice.integer(9, 30):03d}", f"P.{dice.integer(1, 9)}")
        ),
    ]
    x = dice.integer(12, 60)
    for part in dice.shuffled(parts)[: dice.integer(2, 4)]:
        if x + face.wide(part) > draft.sheet.width - 10:
            break
        x = draft.sheet.put(part, x, dice.pick((6, 6, 8)), face, lines=1).x1 + dice.integer(16, 60)


def margin_code(draft: Draft) -> None:
    """Sets a long number at the edge of the page, upright or along the side."""
    dice, sheet = draft.dice, draft.sheet
    face = Face(
        family=dice.pick(("typewriter", "sans", "times", "mono")), size=dice.integer(13, 19)
    )
    text = dice.digits(dice.integer(7, 10))
    if dice.chance(0.3):
        text = f"{dice.letters(dice.integer(2, 4))} {text}"
    if dice.chance(0.55):
        sheet.turned(
            text, sheet.width - dice.integer(6, 12), sheet.height - dice.integer(20, 500), face
        )
    else:
        x = sheet.width - dice.integer(8, 40)
        sheet.put(text, x - face.wide(text) - 4, sheet.height - face.size - 12, face, lines=1)


def stamp(draft: Draft, y0: int, y1: int) -> None:
    """Stamps the page somewhere between y0 and y1 where nothing stands."""
    dice, sheet = draft.dice, draft.sheet
    face = Face(
        family=dice.pick(("sans", "times", "mono")),
        size=dice.integer(16, 26),
        bold=True,
        colour=dice.pick(_STAMP_INKS),
    )
    text = dice.word("page_elements.stamps")
    wide, high = face.wide(text), round(face.size * 1.3)
    for _ in range(6):
        x = dice.integer(draft.left, max(draft.left, draft.right - wide - 10))
        y = dice.integer(y0, max(y0, y1 - high))
        if sheet.is_free(x - 10, y - 8, x + wide + 10, y + high + 26):
            break
    else:
        return
    sheet.put(text, x, y, face, width=wide + 4, lines=1)
    bottom = y + high
    if dice.chance(0.4):
        when = values.spell_date(values.day(dice, 1970, 2004), "Mon. d, yyyy").upper()
        small = face.sized(face.size * 0.6)
        if small.wide(when) <= wide:
            bottom = sheet.put(when, x + (wide - small.wide(when)) // 2, bottom, small, lines=1).y1
    if dice.chance(0.7):
        sheet.frame(x - 8, y - 5, x + wide + 8, bottom + 3, thick=2, colour=face.colour)


def paragraph(draft: Draft, x0: int, x1: int, y: int, *, sentences: int | None = None) -> int:
    """Sets running text."""
    dice = draft.dice
    text = prose.paragraph(dice, draft.trade, sentences or dice.integer(1, 4))
    if draft.look.upper_text:
        text = text.upper()
    indent = dice.pick((0, 0, 0, 30))
    return draft.put(text, x0, x1, y, draft.look.body, indent=indent).y1 + dice.integer(2, 9)


def listing(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets a list of points."""
    dice = draft.dice
    marks: Callable[[int], str] = dice.pick(
        (
            lambda place: f"{place + 1}.",
            lambda place: f"{'abcdefgh'[place]})",
            lambda place: f"({place + 1})",
            lambda place: "-",
            lambda place: "•",
            lambda place: "*",
        )
    )
    left = x0 + dice.pick((0, 15, 30))
    for place in range(dice.integer(2, 5)):
        text = (
            prose.sentence(dice, draft.trade)
            if dice.chance(0.6)
            else phrases.thing(dice, draft.trade).capitalize()
        )
        text = f"{marks(place)} {text}"
        y = draft.put(text, left, x1, y, draft.look.body).y1 + dice.pick((0, 2, 5))
    return y + 4


def footer(draft: Draft, y: int) -> None:
    """Sets what stands below a form: its code, the page's number, a copy list or a remark."""
    dice, sheet = draft.dice, draft.sheet
    small = draft.look.body.sized(max(10, draft.look.body.size - dice.integer(0, 3)))
    line = sheet.height - dice.integer(26, 44)
    if y > line - 8:
        return
    if dice.chance(0.35):
        text = dice.pick(
            (
                f"Form {values.code(dice)} (Rev. {dice.integer(1, 12)}/{dice.integer(65, 99)})",
                f"{dice.letters(3)} {dice.digits(3)} {dice.integer(1, 12)}-{dice.integer(60, 99)}",
                f"FORM NO. {dice.digits(4)}",
                people.initials(dice),
                f"c: {people.name(dice)}",
            )
        )
        sheet.put(text, draft.left, line, small, lines=1)
    if dice.chance(0.3):
        text = dice.pick(
            (f"Page {dice.integer(1, 4)} of {dice.integer(4, 9)}", "Page 1", "-1-", "2", "1")
        )
        sheet.put(text, sheet.width // 2, line, small, align="center", lines=1)
    if dice.chance(0.2):
        words = prose.sentence(dice, draft.trade)
        if small.wide(words) < draft.right - draft.left and y < line - 3 * small.size:
            sheet.put(words, draft.left, line - round(small.size * 1.7), small, lines=1)
