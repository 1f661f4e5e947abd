"""Requests: applications, orders, authorisations and ruled sheets."""

from __future__ import annotations

from hushdoc_training.invented import (
    checkboxes,
    entries,
    form_labels,
    form_style,
    page_elements,
    people,
    phrases,
    signatures,
    tables,
    values,
)
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.entries import Entry
from hushdoc_training.invented.sheet import Block
from hushdoc_training.invented.word_lists import word_lists


def title(draft: Draft, patterns: tuple[str, ...]) -> str:
    """Returns a title with this trade's words in its gap."""
    word = phrases.thing(draft.rng, draft.trade)
    return form_style.cased(draft.rng.pick(patterns).replace("{n}", word), "title")


def _top(draft: Draft, y: int, family: str) -> int:
    rng = draft.rng
    if rng.flip(0.55):
        y = page_elements.letterhead(draft, y)
    if rng.flip(0.25):
        what = draft.entry(rng.pick(("code", "date")))
        form_labels.beside(draft, what, draft.right - 210, draft.right, y)
        y += draft.style.step + 4
    if rng.flip(0.92):
        y = page_elements.title(draft, y, title(draft, word_lists("form_titles.requests")[family]))
    return y


def application(draft: Draft, y: int) -> int:
    """Lays out an application: sections of ruled lines, ticks and a signature."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "application")
    if rng.flip(0.4):
        y = page_elements.paragraph(draft, x0, x1, y, sentences=rng.integer(1, 2))
    for _ in range(9):
        if not draft.more(y + 70):
            break
        if rng.flip(0.6):
            y = page_elements.heading(draft, x0, x1, y)
        for _ in range(rng.integer(1, 3)):
            if y > draft.limit - 60:
                break
            manner = rng.unit()
            if manner < 0.6:
                y = form_labels.some(draft, x0, x1, y, most=6)
            elif manner < 0.8:
                y = checkboxes.choice(draft, x0, x1, y)
            elif manner < 0.9:
                y = form_labels.passage(
                    draft, draft.entry("text"), x0, x1, y, sentences=rng.integer(0, 1)
                )
            else:
                y = checkboxes.yes_no(draft, x0, x1, y)
            y += rng.integer(0, 8)
        y += draft.gap
    if rng.flip(0.3) and y < draft.limit - 60:
        y = page_elements.paragraph(draft, x0, x1, y, sentences=1)
    if rng.flip(0.75) and y < draft.limit:
        y = signatures.lines(draft, x0, x1, y)
    if rng.flip(0.25) and y < draft.limit - 80:
        y = page_elements.heading(draft, x0, x1, y + 6, rng.word("form_titles.office_use"))
        y = form_labels.some(draft, x0, x1, y, most=3)
    return y


def authorization(draft: Draft, y: int) -> int:
    """Lays out a sheet on which something is described, costed and approved."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "authorization")
    y = form_labels.some(draft, x0, x1, y, most=7) + draft.gap
    for _ in range(rng.integer(1, 6)):
        if draft.more(y + 160):
            sentences = rng.integer(0, 3)
            y = form_labels.passage(draft, draft.entry("text"), x0, x1, y, sentences=sentences)
            y += draft.gap
    if rng.flip(0.5) and y < draft.limit - 200:
        y = form_labels.some(draft, x0, x1, y, most=5) + draft.gap
    if rng.flip(0.4) and y < draft.limit - 220:
        y = tables.table(draft, x0, x1 - rng.pick((0, 100, 200)), y, rows=rng.integer(2, 5))
        y += draft.gap
    if rng.flip(0.3) and y < draft.limit - 100:
        y = checkboxes.choice(draft, x0, x1, y) + 6
    if y < draft.limit - 40:
        if rng.flip(0.45):
            y = signatures.approvals(draft, x0, x1, y)
        else:
            y = signatures.lines(draft, x0, x1, y)
    return y


def grid(draft: Draft, y: int) -> int:
    """Lays out a sheet that is boxes nearly all over."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "grid")
    for _ in range(7):
        if not draft.more(y + 60):
            break
        y = form_labels.grid(draft, x0, x1, y, rng.integer(2, 6))
        if rng.flip(0.4):
            y = page_elements.heading(draft, x0, x1, y)
        if rng.flip(0.4) and y < draft.limit - 120:
            y = tables.table(draft, x0, x1, y, rows=rng.integer(2, 6))
        elif rng.flip(0.3) and y < draft.limit - 120:
            y = checkboxes.choice(draft, x0, x1, y)
    if rng.flip(0.4) and y < draft.limit - 60:
        y = signatures.lines(draft, x0, x1, y)
    return y


def order(draft: Draft, y: int) -> int:
    """Lays out an order: who sells, where to send, what and at which price."""
    rng, sheet = draft.rng, draft.sheet
    x0, x1 = draft.left, draft.right
    middle = (x0 + x1) // 2
    y = _top(draft, y, "order")
    number = Entry(rng.pick(("P.O. no.", "Order no.", "No.", "Number", "Order number")), "code")
    text = values.code(rng)
    top = form_labels.beside(draft, number, middle + 60, x1, y, field="document_number", text=text)
    day = values.format_date(values.day(rng, 1970, 2008), draft.style.date_style)
    what = Entry(rng.pick(("Date", "Order date", "Date of order")), "date")
    top = form_labels.beside(draft, what, middle + 60, x1, top + 3, field="date", text=day)
    left = _party(
        draft, rng.pick(("To", "Vendor", "Supplier", "Order from", "Seller")), x0, middle - 10, y
    )
    y = max(top, left) + 8
    if rng.flip(0.6):
        one = _party(
            draft, rng.pick(("Ship to", "Deliver to", "Consignee", "Mark for")), x0, middle - 10, y
        )
        two = _party(draft, rng.pick(("Bill to", "Invoice to", "Charge to")), middle + 10, x1, y)
        y = max(one, two) + 8
    if rng.flip(0.7):
        wanted = [
            Entry(label, value_type)
            for label, value_type in rng.sample(_CONDITIONS, rng.integer(2, 4))
        ]
        y = (
            form_labels.stacked(draft, wanted, x0, x1, y)
            if rng.flip(0.4)
            else form_labels.row(draft, wanted[:3], x0, x1, y)
        )
        y += 8
    y = items(draft, x0, x1, y)
    if rng.flip(0.4) and y < draft.limit - 60:
        y = form_labels.passage(
            draft, draft.entry("text"), x0, x1, y + 6, sentences=rng.integer(0, 1)
        )
    if rng.flip(0.6) and y < draft.limit - 20:
        y = signatures.lines(draft, x0, x1, y)
    sheet.by_line = True
    return y


_CONDITIONS = (
    ("Terms", "phrase"),
    ("F.O.B.", "place"),
    ("Ship via", "company"),
    ("Delivery date", "date"),
    ("Account no.", "code"),
    ("Buyer", "person"),
    ("Requisition no.", "code"),
    ("Department", "department"),
    ("Salesman", "initials"),
    ("Confirmed to", "person"),
    ("Tax exempt no.", "code"),
    ("Freight", "amount"),
    ("Page", "count"),
    ("Your ref.", "code"),
    ("Job no.", "code"),
    ("Weight", "measure"),
)


def _party(draft: Draft, label: str, x0: int, x1: int, y: int) -> int:
    rng = draft.rng
    name = phrases.company(rng) if rng.flip(0.7) else people.name(rng)
    address = entries.short_value(rng, draft.trade, "address", draft.style.date_style)
    text = draft.style.filled(f"{name}\n{address}")
    key = draft.put(draft.style.label(label), x0, x1, y, draft.style.key, role="question", lines=2)
    if rng.flip(0.5) and key.x1 < x0 + 110:
        value = draft.value(text, key.x1 + 10, x1, y, lines=5)
    else:
        value = draft.put(
            text, x0 + rng.pick((0, 14)), x1, key.y1, draft.style.value, role="answer", lines=5
        )
    draft.sheet.pair(key, value)
    return max(key.y1, value.y1)


def items(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets a table of goods with quantities, prices and a total."""
    rng, style, sheet = draft.rng, draft.style, draft.sheet
    heads = [
        (rng.pick(("Qty.", "Quantity", "No.", "Units")), 0.9, "item_quantity"),
        (rng.pick(("Description", "Item", "Article", "Particulars")), 3.2, "item_description"),
        (rng.pick(("Unit price", "Price", "Each", "Rate")), 1.2, "item_price"),
        (rng.pick(("Amount", "Total", "Extension", "Net")), 1.2, "item_amount"),
    ]
    if rng.flip(0.3):
        heads.insert(1, (rng.pick(("Code", "Stock no.", "Cat. no.")), 1.1, "code"))
    if rng.flip(0.3):
        heads[0], heads[1] = heads[1], heads[0]
    sums, left = sum(share for _, share, _ in heads), 0.0
    stops = [x0]
    for _, share, _ in heads:
        left += share
        stops.append(x0 + round((x1 - x0) * left / sums))
    top, bottom = y, y
    for place, (head, _, _) in enumerate(heads):
        text = form_style.cased(head, style.case)
        block = draft.put(
            text, stops[place] + 4, stops[place + 1] - 4, y + 3, style.key, role="question", lines=2
        )
        bottom = max(bottom, block.y1)
    ruled, y = rng.flip(0.7), bottom + 4
    edges = [top, y]
    total = 0.0
    for _ in range(rng.integer(1, 9)):
        if y > draft.limit - 60:
            break
        count, price = rng.integer(1, rng.pick((9, 60, 500))), rng.real(0.5, 400)
        total += count * round(price, 2)
        words = phrases.product(rng, draft.trade)
        texts = {
            "item_quantity": str(count),
            "item_description": words[:1].upper() + words[1:],
            "item_price": f"{price:,.2f}",
            "item_amount": f"{count * round(price, 2):,.2f}",
            "code": values.code(rng),
        }
        y = _item(draft, [(field, texts[field]) for _, _, field in heads], stops, y + 3)
        edges.append(y)
    if ruled:
        for edge in edges[:2] + edges[-1:]:
            sheet.line(x0, edge, x1, edge)
        for stop in stops:
            sheet.line(stop, top, stop, y)
    label = style.label(rng.pick(("Total", "TOTAL", "Total amount", "Grand total")))
    key = draft.put(
        label, stops[-3] - 60, stops[-2] - 4, y + 5, style.key, role="question", lines=1
    )
    value = draft.value(f"{total:,.2f}", max(key.x1 + 6, stops[-2] + 4), x1, y + 5, field="total")
    sheet.pair(key, value)
    return max(key.y1, value.y1) + 6


def _item(draft: Draft, cells: list[tuple[str, str]], stops: list[int], y: int) -> int:
    bottom, placed = y, list[tuple[str, Block]]()
    for place, (field, text) in enumerate(cells):
        known = None if field == "code" else field
        block = draft.value(
            draft.style.filled(text), stops[place] + 5, stops[place + 1] - 3, y, field=known
        )
        placed.append((field, block))
        bottom = max(bottom, block.y1)
    described = sorted(placed, key=lambda cell: cell[0] != "item_description")
    draft.sheet.rows.append(tuple(block.segment for _, block in described))
    return bottom
