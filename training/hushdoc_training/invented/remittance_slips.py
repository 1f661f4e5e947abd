"""Slips: the parts of receipts. The head, the facts, the items, the sums and the foot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushdoc_training.invented import logos, values
from hushdoc_training.invented.contracts import Deal, Item
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.sheet import Block, Face, Role, Sheet
from hushdoc_training.invented.word_lists import word_list


@dataclass(kw_only=True, slots=True)
class Slip:
    """A receipt being laid out: it grows downwards from y. Lives inside one call."""

    sheet: Sheet
    dice: Dice
    deal: Deal
    face: Face
    y: int

    @property
    def provider(self) -> Provider:
        """Whose receipt it is."""
        return self.deal.provider

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
            sign = self.provider.wording(5, ("-", "=", "*", "."))
            count = (sheet.right - sheet.left) // max(1, self.face.wide(sign))
            self.y = sheet.put(sign * count, sheet.left, self.y, self.face, lines=1).y1
        else:
            self.y += 10

    def shown(self, text: str) -> str:
        """Returns the text as this till prints it."""
        return text.upper() if self.provider.habits[6] < 0.6 else text[:1].upper() + text[1:]


def head(slip: Slip) -> None:
    """Sets who issues the receipt."""
    provider, big = slip.provider, slip.face
    if provider.habits[7] < 0.35:
        side = 46
        logos.logo(slip.sheet, provider, (slip.sheet.width - side) // 2, slip.y, side, (30, 30, 30))
        slip.y += side + 8
    if provider.habits[8] < 0.7:
        big = replace(
            slip.face, size=round(slip.face.size * (1.2 + provider.habits[9] * 0.6)), bold=True
        )
    name = provider.name.upper() if provider.habits[10] < 0.6 else provider.name
    slip.center(name, face=big, role="header", field="provider_name")
    slip.center(provider.address, field="provider_address")
    if provider.habits[11] < 0.75:
        label = provider.wording(12, ("Tel.", "Phone:", "TEL", "Ph:", "Telephone"))
        _pairs(slip, label, provider.phone, "phone")
    if provider.habits[13] < 0.5:
        label = provider.wording(14, ("VAT No.", "Tax ID:", "TAX NO", "GST Reg. No.", "TIN"))
        _pairs(slip, label, provider.tax_id, "tax_id")
    if provider.habits[15] < 0.3:
        slip.center(provider.web)
    slip.y += 6


def _pairs(slip: Slip, label: str, text: str, field: str) -> None:
    """Sets a label and its value in the middle of the slip."""
    sheet, face = slip.sheet, slip.face
    gap = face.size // 2
    wide = face.wide(label) + gap + face.wide(text)
    x = max(sheet.left, (sheet.width - wide) // 2)
    key = sheet.put(label, x, slip.y, face, lines=1)
    slip.y = sheet.put(text, key.x1 + gap, slip.y, face, lines=1, field=field).y1


def facts(slip: Slip) -> None:
    """Sets date, number and who stood at the till."""
    deal_, dice, provider = slip.deal, slip.dice, slip.provider
    label = provider.wording(5, ("Date", "DATE:", "Date:", "Dt"))
    slip.fact(label, deal_.spelt(deal_.day), "date")
    if provider.habits[6] < 0.7:
        slip.fact(provider.wording(7, ("Time", "TIME:", "Time:")), values.clock(dice), None)
    label = provider.wording(
        8, ("Receipt no.", "RECEIPT #", "Trans:", "Bill No:", "Inv No.", "Ticket")
    )
    slip.fact(label, deal_.number, "document_number")
    if provider.habits[9] < 0.5:
        who = dice.word("people.given_names")
        slip.fact(provider.wording(10, ("Cashier", "CASHIER:", "Clerk", "Served by")), who, None)
    if provider.habits[11] < 0.4:
        slip.fact(provider.wording(12, ("Till", "REG", "POS", "Terminal")), dice.digits(2), None)
    if provider.habits[13] < 0.15:
        slip.fact("Customer", deal_.customer, "customer_name")


def sums(slip: Slip) -> None:
    """Sets subtotal, tax, total and how it was paid."""
    deal_, provider, dice = slip.deal, slip.provider, slip.dice
    sign = provider.habits[2] < 0.6
    label = provider.wording(3, ("Subtotal", "SUBTOTAL", "Sub-Total:", "NET"))
    if provider.habits[4] < 0.8:
        slip.fact(label, deal_.money(deal_.subtotal, sign=sign), "subtotal", wide=True)
        rate = f"{provider.tax_rate * 100:g}%"
        label = provider.wording(
            5, (f"{provider.tax_name} {rate}", f"{provider.tax_name}", f"TAX {rate}")
        )
        slip.fact(label, deal_.money(deal_.tax, sign=sign), "tax", wide=True)
    face = slip.face
    if provider.habits[7] < 0.6:
        face = replace(face, bold=True, size=round(face.size * (1 + provider.habits[8] * 0.4)))
    label = provider.wording(
        9, ("TOTAL", "Total", "AMOUNT DUE", "Total:", "GRAND TOTAL", "BALANCE DUE")
    )
    slip.fact(label, deal_.money(deal_.total), "total", wide=True, face=face)
    paid = provider.habits[10]
    if paid < 0.45:
        given = deal_.total + dice.pick((0.0, 0.5, 3.0, 10.0))
        slip.fact(dice.pick(("Cash", "CASH")), deal_.money(given, sign=sign), None, wide=True)
        label = provider.wording(11, ("Change", "CHANGE", "CHANGE DUE"))
        slip.fact(label, deal_.money(given - deal_.total, sign=sign), None, wide=True)
    elif paid < 0.8:
        label = dice.pick(("VISA", "MASTERCARD", "DEBIT", "CARD", "AMEX"))
        slip.fact(label, deal_.money(deal_.total, sign=sign), None, wide=True)
        slip.fact("Card no.", f"************{dice.digits(4)}", None, wide=True)
        slip.fact("Auth code", dice.digits(6), None, wide=True)


def foot(slip: Slip) -> None:
    """Sets thanks and maybe a bar code."""
    dice = slip.dice
    slip.y += 6
    for text in dice.sample(word_list("receipts.closing_lines"), dice.integer(1, 3)):
        slip.center(text)
    if slip.provider.habits[14] < 0.4:
        _barcode(slip)


def _barcode(slip: Slip) -> None:
    sheet, dice = slip.sheet, slip.dice
    x, stop = sheet.left + 30, sheet.right - 30
    slip.y += 8
    while x < stop:
        thick = dice.integer(1, 4)
        sheet.frame(x, slip.y, x + thick - 1, slip.y + 40, fill=(20, 20, 20), thick=0)
        x += thick + dice.integer(1, 4)
    slip.y += 46
    slip.center(dice.digits(12))


def item(slip: Slip, item: Item, *, below: bool, first: bool) -> None:
    """Sets one item: on one line, or with count and price on a line below."""
    sheet, deal_, face = slip.sheet, slip.deal, slip.face
    amount = deal_.money(item.amount, sign=slip.provider.habits[2] < 0.4)
    room = face.wide(amount) + 14
    x, y, count = sheet.left, slip.y, None
    if first and not below:
        count = sheet.put(item.count, x, y, face, role="answer", field="item_quantity", lines=1)
        x += face.size * 2
    name = sheet.put(
        slip.shown(item.description),
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
        mark = sheet.put(slip.provider.wording(6, ("x", "@", "X")), count.x1 + 8, y, face, lines=1)
        price = sheet.put(
            deal_.money(item.price),
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
    slip.y = max(block.y1 for block in blocks)
