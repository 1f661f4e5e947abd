"""Invoices: the families of layouts that providers choose among."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hushdoc_training.invented import billing, letterheads, logos, providers
from hushdoc_training.invented.billing import Bill
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sales import draw_sale
from hushdoc_training.invented.sheet import Align, Colour, Face, Sheet

_WHITE: Colour = (255, 255, 255)


def invoice(family: str, provider: Provider, rng: Draws) -> Sheet:
    """Returns an invoice of this provider in this family of layouts."""
    letter = provider.country in ("US", "CA")
    width = 816 if letter else 794
    sheet = Sheet(
        width=width, height=1056 if letter else 1123, margin=44 + int(provider.habits[0] * 30)
    )
    size = 12 + int(provider.habits[1] * 4)
    family_name = "typewriter" if family == "typewritten" else provider.family
    body = Face(family=family_name, size=size)
    key = body.strong() if provider.habits[2] < 0.5 else body
    bill = Bill(
        sheet=sheet,
        rng=rng,
        sale=draw_sale(provider, rng),
        body=body,
        key=key,
        name=replace(
            body, size=round(size * (1.4 + provider.habits[3])), bold=True, colour=provider.colour
        ),
    )
    FAMILIES[family](bill)
    return sheet


def _title(bill: Bill, x: int, y: int, *, align: Align, face: Face | None = None) -> int:
    face = face or replace(bill.name, size=round(bill.body.size * 1.9))
    return bill.sheet.put(bill.word("title", 9), x, y, face, align=align, role="header", lines=1).y1


def _name(bill: Bill, x: int, y: int, face: Face, *, align: Align = "left", width: int) -> int:
    text = bill.provider.name.upper() if bill.provider.habits[4] < 0.3 else bill.provider.name
    return bill.sheet.put(
        text, x, y, face, align=align, width=width, role="header", field="provider_name"
    ).y1


def _tint(colour: Colour) -> Colour:
    red, green, blue = (255 - (255 - part) // 6 for part in colour)
    return red, green, blue


def classic(bill: Bill) -> None:
    """A letterhead with a logo, customer and facts side by side, table, sums at the right."""
    sheet, habits = bill.sheet, bill.provider.habits
    x0, x1, y = sheet.left, sheet.right, 50
    middle = (x0 + x1) // 2
    side = bill.name.size * 2
    small = bill.body.sized(bill.body.size - 1)
    if habits[5] < 0.5:
        logos.logo(sheet, bill.provider, x0, y, side)
        top = _name(bill, x0 + side + 12, y, bill.name, width=middle - x0 - side)
        top = letterheads.issuer(bill, x0 + side + 12, top, small, width=middle - x0 - side)
        other = _title(bill, x1, y, align="right")
    else:
        other = _title(bill, x0, y, align="left")
        top = _name(bill, middle, y, bill.name, align="right", width=x1 - middle)
        top = letterheads.issuer(bill, middle, top, small, align="right", width=x1 - middle)
    y = max(top, other, y + side) + 24
    left = billing.customer(bill, x0, middle - 20, y)
    facts = billing.facts(bill)
    right = billing.aligned(bill, facts, middle + 20, x1, y, right=habits[6] < 0.5)
    y = max(left, right) + 26
    ruled = bill.provider.phrasing(7, ("heads", "rows", "none", "grid"))
    fill = bill.provider.colour if habits[8] < 0.3 else (230, 230, 230) if habits[8] < 0.6 else None
    y = billing.table(bill, x0, x1, y, ruled=ruled, fill=fill)
    y = billing.sums(bill, x1 - 270, x1, y)
    billing.payment(bill, x0, x1, y + 24)
    letterheads.foot(bill)


def banner(bill: Bill) -> None:
    """A coloured bar across the page with the name in white, facts in boxes."""
    sheet, colour = bill.sheet, bill.provider.colour
    x0, x1 = sheet.left, sheet.right
    high = 70 + int(bill.provider.habits[5] * 40)
    sheet.frame(0, 0, sheet.width, high, fill=colour, thick=0)
    white = replace(bill.name, colour=_WHITE)
    _name(bill, x0, high // 2 - white.size // 2, white, width=(x1 - x0) * 3 // 5)
    _title(bill, x1, high // 2 - 14, align="right", face=replace(white, size=22))
    small = bill.body.sized(bill.body.size - 1)
    middle = (x0 + x1) // 2
    right = letterheads.issuer(bill, middle, high + 14, small, align="right", width=x1 - middle)
    left = billing.customer(bill, x0, middle - 10, high + 20)
    y = max(left, right) + 20
    y = billing.boxed(bill, billing.facts(bill)[:5], x0, x1, y, fill=_tint(colour)) + 14
    y = billing.table(bill, x0, x1, y, ruled="rows", fill=colour)
    y = billing.sums(bill, x1 - 280, x1, y, box=bill.provider.habits[6] < 0.4)
    y = billing.payment(bill, x0, middle + 60, y + 20)
    sheet.frame(0, sheet.height - 16, sheet.width, sheet.height, fill=colour, thick=0)


def letter(bill: Bill) -> None:
    """A letter that asks for payment, with a plain table in it."""
    sheet, sale, provider = bill.sheet, bill.sale, bill.provider
    x0, x1, y = sheet.left + 30, sheet.right - 20, 60
    center = provider.habits[5] < 0.5
    y = _name(bill, x0, y, bill.name, align="center" if center else "left", width=x1 - x0)
    small = bill.body.sized(bill.body.size - 1)
    y = (
        letterheads.issuer(bill, x0, y, small, align="center" if center else "left", width=x1 - x0)
        + 30
    )
    y = billing.customer(bill, x0, x0 + 320, y) + 20
    day = sheet.put(sale.formatted(sale.day), x1, y, bill.body, align="right", field="date")
    label = bill.word("number", 3)
    face = bill.body.strong()
    key = sheet.put(label, x0, day.y1 + 10, face, role="question", lines=1)
    value = sheet.put(
        sale.number, key.x1 + 8, day.y1 + 10, face, role="answer", field="document_number", lines=1
    )
    sheet.pair(key, value)
    opening = bill.rng.word("invoices.openings")
    y = sheet.put(opening, x0, value.y1 + 18, bill.body, width=x1 - x0).y1 + 14
    y = billing.table(bill, x0, x1, y, ruled=provider.phrasing(7, ("none", "heads")), fill=None)
    y = billing.sums(bill, x1 - 260, x1, y) + 20
    due = sheet.put(bill.word("due", 5), x0, y, bill.body, role="question", lines=1)
    text = sheet.put(
        sale.formatted(sale.due), due.x1 + 7, y, bill.body, role="answer", field="due_date", lines=1
    )
    sheet.pair(due, text)
    y = billing.payment(bill, x0, x1, text.y1 + 6) + 20
    closing = sheet.put(bill.rng.pick(("Yours sincerely,", "With kind regards,")), x0, y, bill.body)
    logos.scrawl(sheet, bill.rng, x0, x0 + 140, closing.y1 + 34)
    letterheads.foot(bill)


def ruled(bill: Bill) -> None:
    """A printed form: every fact in its box, a table ruled to the foot of the page."""
    sheet, provider = bill.sheet, bill.provider
    x0, x1, y = sheet.left, sheet.right, 44
    middle = (x0 + x1) // 2
    y = _name(bill, x0, y, bill.name, align="center", width=x1 - x0)
    small = bill.body.sized(bill.body.size - 1)
    y = letterheads.issuer(bill, x0, y, small, align="center", width=x1 - x0) + 8
    y = _title(bill, (x0 + x1) // 2, y, align="center") + 8
    bottom = billing.customer(bill, x0 + 8, middle - 8, y + 6)
    right = billing.aligned(bill, billing.facts(bill), middle + 10, x1 - 8, y + 6, right=False)
    bottom = max(bottom, right) + 6
    sheet.frame(x0, y, middle, bottom)
    sheet.frame(middle, y, x1, bottom)
    y = bottom + 12
    to = sheet.bottom - 210
    y = billing.table(bill, x0, x1, y, ruled="grid", fill=(232, 232, 232), to=to) - 6
    sums = billing.sums(bill, x1 - 280, x1, y, box=True)
    y = billing.payment(bill, x0, x1 - 300, y + 10)
    if provider.habits[9] < 0.5:
        thanks = f"Thank you for choosing {provider.name}"
        sheet.put(thanks, x0, max(sums, y) + 16, small, lines=1)


def sidebar(bill: Bill) -> None:
    """A tinted column at the left tells who issues it; the sale stands at the right."""
    sheet, provider = bill.sheet, bill.provider
    wide = 190 + int(provider.habits[5] * 40)
    dark = provider.habits[6] < 0.5 and sum(provider.colour) > 90
    sheet.frame(
        0, 0, wide, sheet.height, thick=0, fill=provider.colour if dark else _tint(provider.colour)
    )
    ink: Colour = _WHITE if dark else (20, 20, 20)
    face = replace(bill.body, size=max(11, bill.body.size - 2), colour=ink)
    room, y = wide - 36, 54
    if not dark:
        logos.logo(sheet, provider, 18, y, 44)
        y += 60
    name = replace(bill.name, colour=ink, size=min(20, bill.name.size))
    y = _name(bill, 18, y, name, width=room) + 12
    y = letterheads.issuer(bill, 18, y, face, width=room) + 24
    side = replace(bill, body=face, key=replace(face, bold=True))
    for fact in billing.facts(bill):
        key = sheet.put(fact.label, 18, y, side.key, width=room, role="question")
        value = sheet.put(fact.text, 18, key.y1, face, width=room, role="answer", field=fact.field)
        sheet.pair(key, value)
        y = value.y1 + 8
    x0, x1 = wide + 34, sheet.width - 36
    y = _title(bill, x0, 54, align="left") + 24
    y = billing.customer(bill, x0, x1, y) + 30
    y = billing.table(bill, x0, x1, y, ruled=provider.phrasing(7, ("rows", "heads")), fill=None)
    y = billing.sums(bill, x1 - 250, x1, y)
    billing.payment(bill, x0, x1, y + 30)


def typewritten(bill: Bill) -> None:
    """An invoice as a typist or a line printer makes it."""
    sheet, provider = bill.sheet, bill.provider
    x0, x1, y = sheet.left, sheet.right, 60
    middle = (x0 + x1) // 2
    plain = replace(bill.body, colour=(25, 25, 25))
    y = _name(bill, x0, y, plain, width=middle - x0)
    y = letterheads.issuer(bill, x0, y, plain, width=middle - x0)
    block = sheet.put(bill.word("title", 9).upper(), middle + 40, 60, plain, role="header", lines=1)
    right = billing.aligned(bill, billing.facts(bill), middle + 40, x1, block.y1 + 14, right=False)
    y = billing.customer(bill, x0, middle, max(y, right) + 20) + 24
    if provider.habits[6] < 0.5:
        sheet.dots(x0, x1, y - 8)
    y = billing.table(bill, x0, x1, y, ruled=provider.phrasing(7, ("none", "heads")), fill=None)
    y = billing.sums(bill, x1 - 290, x1, y + 4) + 20
    y = billing.payment(bill, x0, x1, y)
    if provider.habits[8] < 0.4:
        sheet.put(providers.slogan(bill.rng), x0, y + 20, plain)


FAMILIES: Mapping[str, Callable[[Bill], None]] = {
    "banner": banner,
    "classic": classic,
    "letter": letter,
    "ruled": ruled,
    "sidebar": sidebar,
    "typewritten": typewritten,
}
