"""Page elements around a form: letterheads, titles, page numbers, stamps and codes."""

from __future__ import annotations

from collections.abc import Callable

from hushdoc_training.invented import form_style, logos, people, phrases, prose, values
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.sheet import Align, Colour, Face, Role

_SIDES: tuple[Align, ...] = ("left", "center", "center", "right")
_CENTRED: tuple[Align, ...] = ("center", "center", "center", "left")
_STAMP_INKS: tuple[Colour, ...] = ((150, 30, 40), (40, 50, 130), (60, 60, 60), (30, 30, 30))


def letterhead(draft: Draft, y: int) -> int:
    """Sets the issuer's name, with or without its address."""
    rng, provider, sheet = draft.rng, draft.provider, draft.sheet
    face = Face(
        family=provider.family,
        size=round(draft.style.body.size * rng.real(1.0, 1.9)),
        bold=rng.flip(0.6),
    )
    name = provider.name.upper() if provider.habits[1] < 0.45 else provider.name
    role: Role | None = "header" if face.size >= draft.style.body.size * 1.3 or face.bold else None
    align: Align = rng.pick(_SIDES)
    x = {"left": draft.left, "center": sheet.width // 2, "right": draft.right}[align]
    if align == "left" and rng.flip(0.4):
        side = face.size * 2
        logos.logo(sheet, provider, x, y, side, (30, 30, 30))
        x += side + 12
    name_block = sheet.put(name, x, y, face, align=align, role=role, field="provider_name", lines=1)
    y = name_block.y1
    if rng.flip(0.55):
        small = draft.style.body.sized(max(10, draft.style.body.size - 2))
        lines = [provider.street, provider.town]
        if rng.flip(0.5):
            text = f"{provider.street}, {provider.town}"
            y = sheet.put(text, x, y, small, align=align, field="provider_address", lines=1).y1
        else:
            text = "\n".join(lines)
            y = sheet.put(text, x, y, small, align=align, field="provider_address").y1
        if rng.flip(0.4):
            y = sheet.put(f"Tel. {provider.phone}", x, y, small, align=align, lines=1).y1
    if rng.flip(0.25):
        sheet.line(draft.left, y + 4, draft.right, y + 4, thick=rng.integer(1, 3))
        y += 6
    return y + rng.integer(4, 22)


def title(draft: Draft, y: int, text: str) -> int:
    """Sets the form's title in one or two lines."""
    rng, sheet = draft.rng, draft.sheet
    align: Align = rng.pick(_CENTRED)
    x = sheet.width // 2 if align == "center" else draft.left
    face = draft.style.title
    while face.size > 12 and face.wide(text) > draft.right - draft.left:
        face = face.sized(face.size - 2)
    shown = form_style.cased(text, draft.style.title_case)
    block = sheet.put(shown, x, y, face, align=align, role="header", lines=2)
    if rng.flip(0.12):
        wide = face.wide(shown)
        left = x - wide // 2 if align == "center" else x
        sheet.line(left, block.y1, left + wide, block.y1)
    if rng.flip(0.1) and align == "center":
        half = face.wide(shown) // 2 + 14
        if x - half > 8:
            sheet.frame(x - half, y - 4, x + half, block.y1 + 3, thick=2)
    y = block.y1
    if rng.flip(0.25):
        second = phrases.headline(rng, draft.trade)
        block = sheet.put(
            form_style.cased(second, draft.style.head_case),
            x,
            y + 2,
            draft.style.head,
            align=align,
            role="header",
            lines=2,
        )
        y = block.y1
    return y + rng.integer(6, 24)


def heading(draft: Draft, x0: int, x1: int, y: int, text: str | None = None) -> int:
    """Sets the title of a section: plain, underlined, centred or on a bar."""
    rng, sheet, face = draft.rng, draft.sheet, draft.style.head
    text = text or draft.heading()
    if rng.flip(0.25):
        text = f"{rng.pick(('I', 'II', 'III', 'A', 'B', 'C', '1', '2', '3'))}. {text}"
    y += rng.integer(2, 10)
    manner = rng.unit()
    inset = 5 if manner < 0.25 else 0
    align: Align = rng.pick(("left", "left", "center"))
    if manner < 0.25:
        dark = rng.flip(0.3)
        fill: Colour = (40, 40, 40) if dark else rng.pick(((215, 215, 215), (235, 235, 235)))
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
    return block.y1 + rng.integer(2, 8)


def fax_line(draft: Draft) -> None:
    """Sets the line that a fax machine prints along the upper edge."""
    rng = draft.rng
    face = Face(family=rng.pick(("mono", "typewriter", "sans")), size=rng.integer(10, 12))
    when = values.format_date(values.day(rng, 1985, 2003), rng.pick(("mm/dd/yy", "dd-MON-yy")))
    parts = [
        f"{when} {rng.integer(0, 23):02d}:{rng.integer(0, 59):02d}",
        f"FAX {values.phone(rng, rng.integer(0, 5))}",
        draft.provider.name.upper(),
        rng.pick((f"{rng.integer(1, 9):03d}/{rng.integer(9, 30):03d}", f"P.{rng.integer(1, 9)}")),
    ]
    x = rng.integer(12, 60)
    for part in rng.shuffled(parts)[: rng.integer(2, 4)]:
        if x + face.wide(part) > draft.sheet.width - 10:
            break
        x = draft.sheet.put(part, x, rng.pick((6, 6, 8)), face, lines=1).x1 + rng.integer(16, 60)


def margin_code(draft: Draft) -> None:
    """Sets a long number at the edge of the page, upright or along the side."""
    rng, sheet = draft.rng, draft.sheet
    face = Face(family=rng.pick(("typewriter", "sans", "times", "mono")), size=rng.integer(13, 19))
    text = rng.digits(rng.integer(7, 10))
    if rng.flip(0.3):
        text = f"{rng.letters(rng.integer(2, 4))} {text}"
    if rng.flip(0.55):
        sheet.turned(
            text, sheet.width - rng.integer(6, 12), sheet.height - rng.integer(20, 500), face
        )
    else:
        x = sheet.width - rng.integer(8, 40)
        sheet.put(text, x - face.wide(text) - 4, sheet.height - face.size - 12, face, lines=1)


def stamp(draft: Draft, y0: int, y1: int) -> None:
    """Stamps the page somewhere between y0 and y1 where nothing stands."""
    rng, sheet = draft.rng, draft.sheet
    face = Face(
        family=rng.pick(("sans", "times", "mono")),
        size=rng.integer(16, 26),
        bold=True,
        colour=rng.pick(_STAMP_INKS),
    )
    text = rng.word("page_elements.stamps")
    wide, high = face.wide(text), round(face.size * 1.3)
    for _ in range(6):
        x = rng.integer(draft.left, max(draft.left, draft.right - wide - 10))
        y = rng.integer(y0, max(y0, y1 - high))
        if sheet.is_free(x - 10, y - 8, x + wide + 10, y + high + 26):
            break
    else:
        return
    sheet.put(text, x, y, face, width=wide + 4, lines=1)
    bottom = y + high
    if rng.flip(0.4):
        when = values.format_date(values.day(rng, 1970, 2004), "Mon. d, yyyy").upper()
        small = face.sized(face.size * 0.6)
        if small.wide(when) <= wide:
            bottom = sheet.put(when, x + (wide - small.wide(when)) // 2, bottom, small, lines=1).y1
    if rng.flip(0.7):
        sheet.frame(x - 8, y - 5, x + wide + 8, bottom + 3, thick=2, colour=face.colour)


def paragraph(draft: Draft, x0: int, x1: int, y: int, *, sentences: int | None = None) -> int:
    """Sets running text."""
    rng = draft.rng
    text = prose.paragraph(rng, draft.trade, sentences or rng.integer(1, 4))
    if draft.style.upper_text:
        text = text.upper()
    indent = rng.pick((0, 0, 0, 30))
    return draft.put(text, x0, x1, y, draft.style.body, indent=indent).y1 + rng.integer(2, 9)


def listing(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets a list of points."""
    rng = draft.rng
    marks: Callable[[int], str] = rng.pick(
        (
            lambda place: f"{place + 1}.",
            lambda place: f"{'abcdefgh'[place]})",
            lambda place: f"({place + 1})",
            lambda place: "-",
            lambda place: "•",
            lambda place: "*",
        )
    )
    left = x0 + rng.pick((0, 15, 30))
    for place in range(rng.integer(2, 5)):
        text = (
            prose.sentence(rng, draft.trade)
            if rng.flip(0.6)
            else phrases.thing(rng, draft.trade).capitalize()
        )
        text = f"{marks(place)} {text}"
        y = draft.put(text, left, x1, y, draft.style.body).y1 + rng.pick((0, 2, 5))
    return y + 4


def footer(draft: Draft, y: int) -> None:
    """Sets what stands below a form: its code, the page's number, a copy list or a remark."""
    rng, sheet = draft.rng, draft.sheet
    small = draft.style.body.sized(max(10, draft.style.body.size - rng.integer(0, 3)))
    line = sheet.height - rng.integer(26, 44)
    if y > line - 8:
        return
    if rng.flip(0.35):
        text = rng.pick(
            (
                f"Form {values.code(rng)} (Rev. {rng.integer(1, 12)}/{rng.integer(65, 99)})",
                f"{rng.letters(3)} {rng.digits(3)} {rng.integer(1, 12)}-{rng.integer(60, 99)}",
                f"FORM NO. {rng.digits(4)}",
                people.initials(rng),
                f"c: {people.name(rng)}",
            )
        )
        sheet.put(text, draft.left, line, small, lines=1)
    if rng.flip(0.3):
        text = rng.pick(
            (f"Page {rng.integer(1, 4)} of {rng.integer(4, 9)}", "Page 1", "-1-", "2", "1")
        )
        sheet.put(text, sheet.width // 2, line, small, align="center", lines=1)
    if rng.flip(0.2):
        words = prose.sentence(rng, draft.trade)
        if small.wide(words) < draft.right - draft.left and y < line - 3 * small.size:
            sheet.put(words, draft.left, line - round(small.size * 1.7), small, lines=1)
