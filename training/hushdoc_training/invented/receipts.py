"""Receipts: the slips of tills, of restaurants and of card terminals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hushdoc_training.invented import remittance_slips
from hushdoc_training.invented.contracts import deal
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.remittance_slips import Slip
from hushdoc_training.invented.sheet import Block, Face, Role, Sheet

_FACES = ("mono", "typewriter", "typewriter", "mono", "grotesque", "plain")


def receipt(family: str, provider: Provider, dice: Dice) -> Sheet:
    """Returns a receipt of this provider in this family of layouts."""
    width = {"narrow": 300, "slip": 340, "restaurant": 380}.get(family, 440)
    width += int(provider.habits[0] * 60)
    sheet = Sheet(width=width, height=4000, margin=16 + int(provider.habits[1] * 14))
    size = (12 if width < 340 else 13) + int(provider.habits[2] * 4)
    face = Face(family=provider.wording(3, _FACES), size=size)
    slip = Slip(sheet=sheet, dice=dice, deal=deal(provider, dice, wares=True), face=face, y=24)
    FAMILIES[family](slip)
    sheet.height = slip.y + dice.integer(24, 70)
    return sheet


def supermarket(slip: Slip) -> None:
    """A till's long slip, counts and prices below the names where more than one was bought."""
    remittance_slips.head(slip)
    if slip.provider.habits[12] < 0.5:
        remittance_slips.facts(slip)
    slip.rule()
    for item in slip.deal.items:
        remittance_slips.item(slip, item, below=item.quantity > 1, first=False)
    slip.rule()
    remittance_slips.sums(slip)
    slip.rule()
    if slip.provider.habits[12] >= 0.5:
        remittance_slips.facts(slip)
    remittance_slips.foot(slip)


def narrow(slip: Slip) -> None:
    """A narrow slip: everything on its own line."""
    remittance_slips.head(slip)
    slip.center(
        slip.provider.wording(14, ("RECEIPT", "CASH RECEIPT", "SALES RECEIPT")), role="header"
    )
    slip.rule()
    remittance_slips.facts(slip)
    slip.rule()
    for item in slip.deal.items[:7]:
        remittance_slips.item(slip, item, below=True, first=False)
    slip.rule()
    remittance_slips.sums(slip)
    remittance_slips.foot(slip)


def restaurant(slip: Slip) -> None:
    """A bill with counts in front, a table's number and a line for the tip."""
    dice, sheet = slip.dice, slip.sheet
    remittance_slips.head(slip)
    slip.rule()
    remittance_slips.facts(slip)
    slip.fact(dice.pick(("Table", "TABLE", "Tbl")), dice.digits(2), None)
    slip.fact(dice.pick(("Guests", "Covers", "GST")), dice.digits(1), None)
    slip.rule()
    if slip.provider.habits[15] < 0.5:
        slip.y = _columns(slip)
    for item in slip.deal.items:
        remittance_slips.item(slip, item, below=False, first=True)
    slip.rule()
    remittance_slips.sums(slip)
    if slip.provider.habits[13] < 0.6:
        slip.y += 10
        for label in ("Tip", "Total", "Signature"):
            key = sheet.put(f"{label}:", sheet.left, slip.y, slip.face, role="question", lines=1)
            sheet.line(key.x1 + 6, key.y1 - 3, sheet.right, key.y1 - 3)
            sheet.pair(key, None)
            slip.y = key.y1 + 8
    remittance_slips.foot(slip)


def _columns(slip: Slip) -> int:
    sheet, face = slip.sheet, slip.face
    sheet.put("Qty", sheet.left, slip.y, face, role="question", width=60, lines=1)
    sheet.put("Item", sheet.left + face.size * 3, slip.y, face, role="question", width=90, lines=1)
    return sheet.put(
        "Amount", sheet.right, slip.y, face, align="right", role="question", lines=1
    ).y1


def slip(slip: Slip) -> None:
    """A tidy slip with a title and a small table of columns."""
    sheet, face, deal_ = slip.sheet, slip.face, slip.deal
    title = slip.provider.wording(14, ("SALES RECEIPT", "Receipt", "CASH SALE", "Tax Receipt"))
    slip.center(title, face=face.strong(), role="header")
    remittance_slips.head(slip)
    remittance_slips.facts(slip)
    slip.rule()
    x0, x1 = sheet.left, sheet.right
    stops = (x0, x0 + round((x1 - x0) * 0.5), x0 + round((x1 - x0) * 0.66), x1)
    heads = slip.provider.wording(
        13, ("Item|Qty|Amount", "Description|Qty|Total", "ARTICLE|NO|SUM")
    )
    for place, head in enumerate(heads.split("|")):
        _column(slip, head, stops, place, "question", None)
    slip.y += round(face.size * 1.4)
    for item in deal_.items:
        cells = (
            (slip.shown(item.description), "item_description"),
            (item.count, "item_quantity"),
            (deal_.money(item.amount, sign=False), "item_amount"),
        )
        blocks = [
            _column(slip, text, stops, place, "answer", field)
            for place, (text, field) in enumerate(cells)
        ]
        sheet.rows.append(tuple(block.segment for block in blocks))
        slip.y = max(block.y1 for block in blocks)
    slip.rule()
    remittance_slips.sums(slip)
    remittance_slips.foot(slip)


def _column(
    slip: Slip, text: str, stops: tuple[int, ...], place: int, role: Role, field: str | None
) -> Block:
    return slip.sheet.put(
        text,
        stops[place],
        slip.y,
        slip.face,
        width=stops[place + 1] - stops[place] - (6 if place < 2 else 0),
        align="right" if place else "left",
        role=role,
        field=field,
        lines=2 if place == 0 else 1,
    )


FAMILIES: Mapping[str, Callable[[Slip], None]] = {
    "narrow": narrow,
    "restaurant": restaurant,
    "slip": slip,
    "supermarket": supermarket,
}
