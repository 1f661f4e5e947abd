"""Billing, the parts of invoices: the parties, the facts, the table of items, sums and payment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hushdoc_training.invented import phrases, providers, values
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sales import Item, Sale
from hushdoc_training.invented.sheet import Block, Colour, Face, Role, Sheet
from hushdoc_training.invented.word_lists import word_lists


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """An invoice while it is laid out: the sale, the page and the provider's typefaces."""

    sheet: Sheet
    rng: Draws
    sale: Sale
    body: Face
    key: Face
    name: Face

    @property
    def provider(self) -> Provider:
        """Who issues it."""
        return self.sale.provider

    def word(self, what: str, place: int) -> str:
        """Returns this provider's own word for something."""
        return self.provider.phrasing(place, word_lists("invoices.facts")[what])


class Fact(NamedTuple):
    """A label, its value and the field it states."""

    label: str
    text: str
    field: str | None


def facts(bill: Bill) -> list[Fact]:
    """Returns what stands in an invoice's head beside its parties."""
    sale, habits, rng = bill.sale, bill.provider.habits, bill.rng
    found = [
        Fact(bill.word("number", 3), sale.number, "document_number"),
        Fact(bill.word("date", 4), sale.formatted(sale.day), "date"),
    ]
    if habits[5] < 0.75:
        found.append(Fact(bill.word("due", 5), sale.formatted(sale.due), "due_date"))
    if habits[6] < 0.45:
        found.append(Fact("Customer no.", rng.digits(rng.integer(4, 6)), "customer_id"))
    if habits[7] < 0.35:
        found.append(Fact("P.O. number", values.code(rng), "customer_order"))
    if habits[8] < 0.3:
        found.append(
            Fact(
                "Terms",
                rng.pick(("Net 30", "30 days", "On receipt", "2% 10, net 30")),
                "payment_terms",
            )
        )
    if habits[9] < 0.2:
        found.append(Fact("Tax ID", bill.provider.tax_id, "tax_id"))
    return found if habits[10] < 0.7 else found[::-1]


def aligned(bill: Bill, found: Sequence[Fact], x0: int, x1: int, y: int, *, right: bool) -> int:
    """Sets facts below one another, their values at one tab stop or at the right edge."""
    tab = x0 + max(bill.key.wide(fact.label) for fact in found) + 14
    for fact in found:
        key = bill.sheet.put(fact.label, x0, y, bill.key, role="question", width=x1 - x0, lines=1)
        if right and bill.body.wide(fact.text) < x1 - tab:
            value = bill.sheet.put(
                fact.text,
                tab,
                y,
                bill.body,
                width=x1 - tab,
                align="right",
                role="answer",
                field=fact.field,
                lines=1,
            )
        else:
            value = bill.sheet.put(
                fact.text,
                tab,
                y,
                bill.body,
                role="answer",
                field=fact.field,
                width=max(60, x1 - tab),
                lines=2,
            )
        bill.sheet.pair(key, value)
        y = value.y1 + 2
    return y


def boxed(
    bill: Bill, found: Sequence[Fact], x0: int, x1: int, y: int, *, fill: Colour | None
) -> int:
    """Sets facts beside one another in boxes, labels above values."""
    width, high = (x1 - x0) // len(found), round(bill.body.size * 3.2)
    for place, fact in enumerate(found):
        left = x0 + place * width
        bill.sheet.frame(left, y, left + width, y + high)
        if fill:
            bill.sheet.frame(left, y, left + width, y + high // 2, fill=fill)
        room = width - 8
        key = bill.sheet.put(
            fact.label, left + 5, y + 2, bill.key, role="question", width=room, lines=1
        )
        value = bill.sheet.put(
            fact.text,
            left + 5,
            y + high // 2 + 1,
            bill.body,
            role="answer",
            field=fact.field,
            width=room,
            lines=1,
        )
        bill.sheet.pair(key, value)
    return y + high + 6


def customer(bill: Bill, x0: int, x1: int, y: int) -> int:
    """Sets whom the invoice is for."""
    label = bill.word("customer", 11)
    key: Block | None = None
    if label:
        key = bill.sheet.put(label, x0, y, bill.key, role="question", width=x1 - x0)
        y = key.y1 + 2
    name = bill.sheet.put(
        bill.sale.customer, x0, y, bill.body, width=x1 - x0, role="answer", field="customer_name"
    )
    if key:
        bill.sheet.pair(key, name)
    address = bill.sale.customer_address
    if bill.provider.habits[12] < 0.3:
        address += f"\n{providers.country_name(bill.provider.country)}"
    return bill.sheet.put(
        address, x0, name.y1, bill.body, width=x1 - x0, role="answer", field="customer_address"
    ).y1


def order(bill: Bill) -> list[str]:
    """Returns this provider's columns."""
    habits = bill.provider.habits
    columns = ["item_description", "item_quantity", "item_price", "item_amount"]
    if habits[2] < 0.3:
        columns = ["item_quantity", "item_description", "item_price", "item_amount"]
    if habits[3] < 0.2:
        columns.remove("item_price")
    if habits[4] < 0.3:
        columns.insert(0, "code")
    if habits[6] > 0.7:
        columns.insert(0, "place")
    return columns


def table(
    bill: Bill, x0: int, x1: int, y: int, *, ruled: str, fill: Colour | None, to: int = 0
) -> int:
    """Sets the items under their heads, ruled "none", "heads", "rows" or "grid", down to `to`."""
    sheet, columns = bill.sheet, order(bill)
    shares = {"item_description": 3.4, "item_quantity": 0.8, "code": 1.0, "place": 0.45}
    stops, left = [x0], 0.0
    total = sum(shares.get(column, 1.2) for column in columns)
    for column in columns:
        left += shares.get(column, 1.2)
        stops.append(x0 + round((x1 - x0) * left / total))
    head = bill.key
    high = round(head.size * 1.7)
    if fill:
        sheet.frame(x0, y, x1, y + high, fill=fill, thick=0)
        if sum(fill) < 360:
            head = Face(family=head.family, size=head.size, bold=True, colour=(255, 255, 255))
    for place, column in enumerate(columns):
        label = bill.provider.phrasing((place + 5) % 16, word_lists("invoices.columns")[column])
        _cell(bill, label, column, stops[place], stops[place + 1], y + 4, head, "question", None)
    top, y = y, y + high
    edges = [top, y]
    for number, item in enumerate(bill.sale.items):
        if y > sheet.bottom - 180:
            break
        y = _line(bill, item, number, columns, stops, y + 4) + 2
        edges.append(y)
    bottom = max(y, to)
    _rules(sheet, stops, [*edges, bottom], ruled)
    return bottom + 6


def _line(bill: Bill, item: Item, number: int, columns: list[str], stops: list[int], y: int) -> int:
    sign = bill.provider.habits[9] > 0.6
    texts = {
        "item_description": item.description,
        "item_quantity": item.count,
        "item_price": bill.sale.money(item.price, sign=sign),
        "item_amount": bill.sale.money(item.amount, sign=sign),
        "code": item.code,
        "place": str(number + 1),
    }
    placed: dict[str, Block] = {}
    for place, column in enumerate(columns):
        field = column if column.startswith("item") else None
        placed[column] = _cell(
            bill,
            texts[column],
            column,
            stops[place],
            stops[place + 1],
            y,
            bill.body,
            "answer",
            field,
        )
    first = placed["item_description"].segment
    others = [block.segment for column, block in placed.items() if column != "item_description"]
    bill.sheet.rows.append((first, *others))
    return max(block.y1 for block in placed.values())


def _cell(
    bill: Bill,
    text: str,
    column: str,
    x0: int,
    x1: int,
    y: int,
    face: Face,
    role: Role,
    field: str | None,
) -> Block:
    numeric = column in ("item_quantity", "item_price", "item_amount")
    return bill.sheet.put(
        text,
        x0 + 6,
        y,
        face,
        width=x1 - x0 - 10,
        align="right" if numeric and bill.provider.habits[8] < 0.8 else "left",
        lines=2 if column == "item_description" else 1,
        role=role,
        field=field,
    )


def _rules(sheet: Sheet, stops: list[int], edges: list[int], ruled: str) -> None:
    x0, x1 = stops[0], stops[-1]
    if ruled == "none":
        return
    for place, edge in enumerate(edges):
        if ruled == "rows" or place in (0, 1, len(edges) - 1):
            sheet.line(x0, edge, x1, edge)
    if ruled == "grid":
        for stop in stops:
            sheet.line(stop, edges[0], stop, edges[-1])


def sums(bill: Bill, x0: int, x1: int, y: int, *, box: bool = False) -> int:
    """Sets subtotal, tax and total, the amounts at the right edge."""
    sale, provider = bill.sale, bill.provider
    rate = f"{provider.tax_rate * 100:g}%"
    tax = provider.phrasing(
        6,
        (
            f"{provider.tax_name} {rate}",
            f"{provider.tax_name} ({rate})",
            f"plus {rate} {provider.tax_name}",
            provider.tax_name,
        ),
    )
    found = [
        Fact(bill.word("subtotal", 7), sale.money(sale.subtotal), "subtotal"),
        Fact(tax, sale.money(sale.tax), "tax"),
        Fact(bill.word("total", 8), sale.money(sale.total), "total"),
    ]
    if provider.habits[10] < 0.12:
        found = found[-1:]
    top = y
    for fact in found:
        last = fact.field == "total"
        face = bill.body.strong() if last else bill.body
        if last and len(found) > 1 and not box:
            bill.sheet.line(x0, y + 1, x1, y + 1)
            y += 4
        key = bill.sheet.put(
            fact.label, x0 + 5, y + 3, face, role="question", lines=1, width=x1 - x0 - 90
        )
        value = bill.sheet.put(
            fact.text,
            key.x1 + 8,
            y + 3,
            face,
            width=x1 - key.x1 - 13,
            align="right",
            role="answer",
            field=fact.field,
            lines=1,
        )
        bill.sheet.pair(key, value)
        y = value.y1 + 3
        if box:
            bill.sheet.frame(x0, top, x1, y)
            top = y
    return y + 6


def payment(bill: Bill, x0: int, x1: int, y: int) -> int:
    """Sets how to pay."""
    provider, face, sheet = bill.provider, bill.body, bill.sheet
    if provider.habits[11] < 0.55:
        text = bill.rng.pick(
            (
                "Please transfer the amount to the account below and quote the invoice number.",
                "Payment is due within 30 days. Thank you for your business.",
                "Kindly make your check payable to the company named above.",
                f"Interest of {bill.rng.integer(1, 3)}% per month is charged on overdue accounts.",
                f"Goods remain our property until paid. {phrases.title_case('no returns')}.",
            )
        )
        y = sheet.put(text, x0, y, face, width=x1 - x0).y1 + 4
    found = []
    if provider.habits[12] < 0.7:
        found.append(Fact(bill.word("iban", 12), provider.iban, "iban"))
        if provider.habits[13] < 0.6:
            found.insert(0, Fact("Bank", provider.bank, None))
    if provider.habits[9] >= 0.2:
        found.append(Fact(bill.word("tax_id", 13), provider.tax_id, "tax_id"))
    return aligned(bill, found, x0, x1, y, right=False) if found else y
