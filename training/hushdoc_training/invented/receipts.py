"""Receipts: the layout families of tills, restaurants and card terminals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hushdoc_training.invented import receipt_parts
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.receipt_parts import ReceiptDraft
from hushdoc_training.invented.sales import draw_sale
from hushdoc_training.invented.sheet import Block, Face, Role, Sheet

_FACES = ("mono", "typewriter", "typewriter", "mono", "grotesque", "plain")


def receipt(family: str, provider: Provider, rng: Draws) -> Sheet:
    """Returns a receipt of this provider in this family of layouts."""
    width = {"narrow": 300, "slip": 340, "restaurant": 380}.get(family, 440)
    width += int(provider.habits[0] * 60)
    sheet = Sheet(width=width, height=4000, margin=16 + int(provider.habits[1] * 14))
    size = (12 if width < 340 else 13) + int(provider.habits[2] * 4)
    face = Face(family=provider.phrasing(3, _FACES), size=size)
    draft = ReceiptDraft(
        sheet=sheet, rng=rng, sale=draw_sale(provider, rng, wares=True), face=face, y=24
    )
    FAMILIES[family](draft)
    sheet.height = draft.y + rng.integer(24, 70)
    return sheet


def supermarket(draft: ReceiptDraft) -> None:
    """A till's long receipt, counts and prices below the names where more than one was bought."""
    receipt_parts.head(draft)
    if draft.provider.habits[12] < 0.5:
        receipt_parts.facts(draft)
    draft.rule()
    for item in draft.sale.items:
        receipt_parts.item(draft, item, below=item.quantity > 1, first=False)
    draft.rule()
    receipt_parts.sums(draft)
    draft.rule()
    if draft.provider.habits[12] >= 0.5:
        receipt_parts.facts(draft)
    receipt_parts.foot(draft)


def narrow(draft: ReceiptDraft) -> None:
    """A narrow receipt: everything on its own line."""
    receipt_parts.head(draft)
    draft.center(
        draft.provider.phrasing(14, ("RECEIPT", "CASH RECEIPT", "SALES RECEIPT")), role="header"
    )
    draft.rule()
    receipt_parts.facts(draft)
    draft.rule()
    for item in draft.sale.items[:7]:
        receipt_parts.item(draft, item, below=True, first=False)
    draft.rule()
    receipt_parts.sums(draft)
    receipt_parts.foot(draft)


def restaurant(draft: ReceiptDraft) -> None:
    """A bill with counts in front, a table's number and a line for the tip."""
    rng, sheet = draft.rng, draft.sheet
    receipt_parts.head(draft)
    draft.rule()
    receipt_parts.facts(draft)
    draft.fact(rng.pick(("Table", "TABLE", "Tbl")), rng.digits(2), None)
    draft.fact(rng.pick(("Guests", "Covers", "GST")), rng.digits(1), None)
    draft.rule()
    if draft.provider.habits[15] < 0.5:
        draft.y = _columns(draft)
    for item in draft.sale.items:
        receipt_parts.item(draft, item, below=False, first=True)
    draft.rule()
    receipt_parts.sums(draft)
    if draft.provider.habits[13] < 0.6:
        draft.y += 10
        for label in ("Tip", "Total", "Signature"):
            key = sheet.put(f"{label}:", sheet.left, draft.y, draft.face, role="question", lines=1)
            sheet.line(key.x1 + 6, key.y1 - 3, sheet.right, key.y1 - 3)
            sheet.pair(key, None)
            draft.y = key.y1 + 8
    receipt_parts.foot(draft)


def _columns(draft: ReceiptDraft) -> int:
    sheet, face = draft.sheet, draft.face
    sheet.put("Qty", sheet.left, draft.y, face, role="question", width=60, lines=1)
    sheet.put("Item", sheet.left + face.size * 3, draft.y, face, role="question", width=90, lines=1)
    return sheet.put(
        "Amount", sheet.right, draft.y, face, align="right", role="question", lines=1
    ).y1


def slip(draft: ReceiptDraft) -> None:
    """A tidy receipt with a title and a small table of columns."""
    sheet, face, sale = draft.sheet, draft.face, draft.sale
    title = draft.provider.phrasing(14, ("SALES RECEIPT", "Receipt", "CASH SALE", "Tax Receipt"))
    draft.center(title, face=face.strong(), role="header")
    receipt_parts.head(draft)
    receipt_parts.facts(draft)
    draft.rule()
    x0, x1 = sheet.left, sheet.right
    stops = (x0, x0 + round((x1 - x0) * 0.5), x0 + round((x1 - x0) * 0.66), x1)
    heads = draft.provider.phrasing(
        13, ("Item|Qty|Amount", "Description|Qty|Total", "ARTICLE|NO|SUM")
    )
    for place, head in enumerate(heads.split("|")):
        _column(draft, head, stops, place, "question", None)
    draft.y += round(face.size * 1.4)
    for item in sale.items:
        cells = (
            (draft.shown(item.description), "item_description"),
            (item.count, "item_quantity"),
            (sale.money(item.amount, sign=False), "item_amount"),
        )
        blocks = [
            _column(draft, text, stops, place, "answer", field)
            for place, (text, field) in enumerate(cells)
        ]
        sheet.rows.append(tuple(block.segment for block in blocks))
        draft.y = max(block.y1 for block in blocks)
    draft.rule()
    receipt_parts.sums(draft)
    receipt_parts.foot(draft)


def _column(
    draft: ReceiptDraft,
    text: str,
    stops: tuple[int, ...],
    place: int,
    role: Role,
    field: str | None,
) -> Block:
    return draft.sheet.put(
        text,
        stops[place],
        draft.y,
        draft.face,
        width=stops[place + 1] - stops[place] - (6 if place < 2 else 0),
        align="right" if place else "left",
        role=role,
        field=field,
        lines=2 if place == 0 else 1,
    )


FAMILIES: Mapping[str, Callable[[ReceiptDraft], None]] = {
    "narrow": narrow,
    "restaurant": restaurant,
    "slip": slip,
    "supermarket": supermarket,
}
