"""Parts of receipts: the head, the facts, the items, the sums and the foot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushdoc_training.invented import logos, values
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sales import Item, Sale
from hushdoc_training.invented.sheet import Block, Face, Role, Sheet
from hushdoc_training.invented.word_lists import word_list


@dataclass(kw_only=True, slots=True)
class ReceiptDraft:
    """A receipt being laid out: it grows downwards from y. Lives inside one call."""

    sheet: Sheet
    rng: Draws
    sale: Sale
    face: Face
    y: int

    @property
    def provider(self) -> Provider:
        """Whose receipt it is."""
        return self.sale.provider

    def center(
        self,
        text: str,
        *,
        face: Face | None = None,
        role: Role | None = None,
        field: str | None = None,
    ) -> None:
        """Sets a line in the middle."""
        sheet = self.sheet
        self.y = sheet.put(
            text,
            sheet.left,
            self.y,
            face or self.face,
            width=sheet.right - sheet.left,
            align="center",
            role=role,
            field=field,
        ).y1

    def fact(
        self,
        label: str,
        text: str,
        field: str | None,
        *,
        wide: bool = False,
        face: Face | None = None,
    ) -> Block:
        """Sets a label and its value on one line, apart if wide."""
        sheet, face = self.sheet, face or self.face
        key = sheet.put(label, sheet.left, self.y, face, role="question", lines=1)
        start = key.x1 + face.size // 2 + 2
        value = sheet.put(
            text,
            start,
            self.y,
            face,
            width=max(20, sheet.right - start),
            align="right" if wide else "left",
            role="answer",
            field=field,
            lines=1,
        )
        sheet.pair(key, value)
        self.y = value.y1
        return value

    def rule(self) -> None:
        """Sets a line across: drawn, dotted or of signs."""
        sheet, manner = self.sheet, self.provider.habits[4]
        self.y += 4
        if manner < 0.35:
            sheet.dots(sheet.left, sheet.right, self.y + 2)
            self.y += 8
        elif manner < 0.6:
            sheet.line(sheet.left, self.y + 2, sheet.right, self.y + 2)
            self.y += 8
        elif manner < 0.85:
            sign = self.provider.phrasing(5, ("-", "=", "*", "."))
            count = (sheet.right - sheet.left) // max(1, self.face.wide(sign))
            self.y = sheet.put(sign * count, sheet.left, self.y, self.face, lines=1).y1
        else:
            self.y += 10

    def shown(self, text: str) -> str:
        """Returns the text as this till prints it."""
        return text.upper() if self.provider.habits[6] < 0.6 else text[:1].upper() + text[1:]


def head(draft: ReceiptDraft) -> None:
    """Sets who issues the receipt."""
    provider, big = draft.provider, draft.face
    if provider.habits[7] < 0.35:
        side = 46
        logos.logo(
            draft.sheet, provider, (draft.sheet.width - side) // 2, draft.y, side, (30, 30, 30)
        )
        draft.y += side + 8
    if provider.habits[8] < 0.7:
        big = replace(
            draft.face, size=round(draft.face.size * (1.2 + provider.habits[9] * 0.6)), bold=True
        )
    name = provider.name.upper() if provider.habits[10] < 0.6 else provider.name
    draft.center(name, face=big, role="header", field="provider_name")
    draft.center(provider.address, field="provider_address")
    if provider.habits[11] < 0.75:
        label = provider.phrasing(12, ("Tel.", "Phone:", "TEL", "Ph:", "Telephone"))
        _pairs(draft, label, provider.phone, "phone")
    if provider.habits[13] < 0.5:
        label = provider.phrasing(14, ("VAT No.", "Tax ID:", "TAX NO", "GST Reg. No.", "TIN"))
        _pairs(draft, label, provider.tax_id, "tax_id")
    if provider.habits[15] < 0.3:
        draft.center(provider.web)
    draft.y += 6


def _pairs(draft: ReceiptDraft, label: str, text: str, field: str) -> None:
    """Sets a label and its value in the middle of the receipt."""
    sheet, face = draft.sheet, draft.face
    gap = face.size // 2
    wide = face.wide(label) + gap + face.wide(text)
    x = max(sheet.left, (sheet.width - wide) // 2)
    key = sheet.put(label, x, draft.y, face, lines=1)
    draft.y = sheet.put(text, key.x1 + gap, draft.y, face, lines=1, field=field).y1


def facts(draft: ReceiptDraft) -> None:
    """Sets date, number and who stood at the till."""
    sale, rng, provider = draft.sale, draft.rng, draft.provider
    label = provider.phrasing(5, ("Date", "DATE:", "Date:", "Dt"))
    draft.fact(label, sale.formatted(sale.day), "date")
    if provider.habits[6] < 0.7:
        draft.fact(provider.phrasing(7, ("Time", "TIME:", "Time:")), values.clock(rng), None)
    label = provider.phrasing(
        8, ("Receipt no.", "RECEIPT #", "Trans:", "Bill No:", "Inv No.", "Ticket")
    )
    draft.fact(label, sale.number, "document_number")
    if provider.habits[9] < 0.5:
        who = rng.word("people.given_names")
        draft.fact(provider.phrasing(10, ("Cashier", "CASHIER:", "Clerk", "Served by")), who, None)
    if provider.habits[11] < 0.4:
        draft.fact(provider.phrasing(12, ("Till", "REG", "POS", "Terminal")), rng.digits(2), None)
    if provider.habits[13] < 0.15:
        draft.fact("Customer", sale.customer, "customer_name")


def sums(draft: ReceiptDraft) -> None:
    """Sets subtotal, tax, total and how it was paid."""
    sale, provider, rng = draft.sale, draft.provider, draft.rng
    sign = provider.habits[2] < 0.6
    label = provider.phrasing(3, ("Subtotal", "SUBTOTAL", "Sub-Total:", "NET"))
    if provider.habits[4] < 0.8:
        draft.fact(label, sale.money(sale.subtotal, sign=sign), "subtotal", wide=True)
        rate = f"{provider.tax_rate * 100:g}%"
        label = provider.phrasing(
            5, (f"{provider.tax_name} {rate}", f"{provider.tax_name}", f"TAX {rate}")
        )
        draft.fact(label, sale.money(sale.tax, sign=sign), "tax", wide=True)
    face = draft.face
    if provider.habits[7] < 0.6:
        face = replace(face, bold=True, size=round(face.size * (1 + provider.habits[8] * 0.4)))
    label = provider.phrasing(
        9, ("TOTAL", "Total", "AMOUNT DUE", "Total:", "GRAND TOTAL", "BALANCE DUE")
    )
    draft.fact(label, sale.money(sale.total), "total", wide=True, face=face)
    paid = provider.habits[10]
    if paid < 0.45:
        given = sale.total + rng.pick((0.0, 0.5, 3.0, 10.0))
        draft.fact(rng.pick(("Cash", "CASH")), sale.money(given, sign=sign), None, wide=True)
        label = provider.phrasing(11, ("Change", "CHANGE", "CHANGE DUE"))
        draft.fact(label, sale.money(given - sale.total, sign=sign), None, wide=True)
    elif paid < 0.8:
        label = rng.pick(("VISA", "MASTERCARD", "DEBIT", "CARD", "AMEX"))
        draft.fact(label, sale.money(sale.total, sign=sign), None, wide=True)
        draft.fact("Card no.", f"************{rng.digits(4)}", None, wide=True)
        draft.fact("Auth code", rng.digits(6), None, wide=True)


def foot(draft: ReceiptDraft) -> None:
    """Sets thanks and maybe a bar code."""
    rng = draft.rng
    draft.y += 6
    for text in rng.sample(word_list("receipts.closing_lines"), rng.integer(1, 3)):
        draft.center(text)
    if draft.provider.habits[14] < 0.4:
        draft.y = barcode(draft.sheet, draft.y, rng)
        draft.center(rng.digits(12))


def barcode(sheet: Sheet, y: int, rng: Draws) -> int:
    """Draws a bar code across the sheet, without its number, and returns where that begins."""
    x, stop, y = sheet.left + 30, sheet.right - 30, y + 8
    while x < stop:
        thick = rng.integer(1, 4)
        sheet.frame(x, y, x + thick - 1, y + 40, fill=(20, 20, 20), thick=0)
        x += thick + rng.integer(1, 4)
    return y + 46


def item(draft: ReceiptDraft, item: Item, *, below: bool, first: bool) -> None:
    """Sets one item: on one line, or with count and price on a line below."""
    sheet, sale, face = draft.sheet, draft.sale, draft.face
    amount = sale.money(item.amount, sign=draft.provider.habits[2] < 0.4)
    room = face.wide(amount) + 14
    x, y, count = sheet.left, draft.y, None
    if first and not below:
        count = sheet.put(item.count, x, y, face, role="answer", field="item_quantity", lines=1)
        x += face.size * 2
    name = sheet.put(
        draft.shown(item.description),
        x,
        y,
        face,
        width=sheet.right - x - room,
        role="answer",
        field="item_description",
        lines=2,
    )
    blocks = [name] + ([count] if count else [])
    if below:
        y = name.y1
        count = sheet.put(
            item.count, x + 20, y, face, role="answer", field="item_quantity", lines=1
        )
        mark = sheet.put(
            draft.provider.phrasing(6, ("x", "@", "X")), count.x1 + 8, y, face, lines=1
        )
        price = sheet.put(
            sale.money(item.price),
            mark.x1 + 8,
            y,
            face,
            role="answer",
            field="item_price",
            lines=1,
        )
        blocks += [count, price]
    value = sheet.put(
        amount,
        sheet.right - room,
        y,
        face,
        width=room,
        align="right",
        role="answer",
        field="item_amount",
        lines=1,
    )
    blocks.append(value)
    sheet.rows.append(tuple(block.segment for block in blocks))
    draft.y = max(block.y1 for block in blocks)
