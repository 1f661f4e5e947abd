"""Sums of till receipts: subtotals, taxes, rounding, totals, payment and the summary of taxes."""

from __future__ import annotations

from dataclasses import replace

from hushdoc_training.invented import shops
from hushdoc_training.invented.sheet import Block, Face
from hushdoc_training.invented.till_parts import Till


def sums(till: Till) -> None:
    """Sets all from the number of items to the total."""
    shop, sale = till.shop, till.sale
    if shop.does("count", 0.5):
        till.sum(shop.label("num_quantity"), str(sale.quantity), "num_quantity")
    elif shop.does("lines", 0.12):
        till.sum(shop.label("num_items"), str(len(sale.items)), "num_items")
    extras = bool(sale.discount or sale.service or shop.tax_manner == "added")
    if extras or shop.does("subtotal", 0.45):
        key = "total_exclusive" if shop.does("exclusive", 0.15) else "subtotal"
        _sum(till, shop.label(key), sale.subtotal, "subtotal")
    if sale.discount or shop.does("no discount", 0.12):
        _sum(till, shop.label("discount"), 0.0 - sale.discount, "discount")
    if sale.service:
        rate = f" {shop.service_rate * 100:g}%" if shop.does("service rate", 0.5) else ""
        _sum(till, shop.label("service_charge") + rate, sale.service, "service_charge")
    if shop.tax_manner == "added" and (sale.tax or shop.does("no tax", 0.5)):
        _tax(till)
    rounds = shop.rounds_to > 0 and shop.does("rounding", 0.8)
    if rounds:
        if shop.does("before rounding", 0.7):
            key = "total_before_rounding"
            key = "total_inclusive" if shop.does("inclusive", 0.5) else key
            field = "total_before_rounding" if sale.rounding else "total"
            _sum(till, shop.label(key), sale.unrounded, field)
        _sum(till, shop.label("rounding"), sale.rounding, "rounding")
    _total(till, rounds)
    if shop.tax_manner == "included" and shop.does("contained tax", 0.5):
        _sum(till, shop.label("tax_inclusive"), sale.tax, "tax")
    if shop.does("savings", 0.12):
        saved = sale.discount + sum(item.discount for item in sale.items)
        _sum(till, shop.label("savings"), saved, None)


def _tax(till: Till) -> None:
    """Sets the added tax: one line, or two that share it."""
    shop, sale = till.shop, till.sale
    if shop.does("two taxes", 0.12) and sale.tax:
        half = round(sale.tax / 2, shop.currency.decimals)
        for mark, part in (("1", half), ("2", sale.tax - half)):
            _sum(till, f"{shop.label('tax')} {mark}", part, "tax")
        return
    _sum(till, shop.label("tax"), sale.tax, "tax")


def _sum(till: Till, key: str, amount: float, field: str | None) -> None:
    sign = till.shop.does("signs", 0.3)
    text = till.shop.currency.format(amount) if sign else till.shop.currency.plain(amount)
    if amount < 0 and till.shop.does("brackets", 0.2):
        text = f"({text.replace('-', '')})"
    till.sum(key, text, field, sign=sign)


def _total(till: Till, rounds: bool) -> None:
    shop, sale, face = till.shop, till.sale, till.face
    if shop.does("big total", 0.5):
        size = round(face.size * (1 + shop.habits["total size"] * 0.5))
        face = replace(face, bold=True, size=size)
    key = "total_inclusive" if shop.tax_manner == "included" and not rounds else "total"
    key = key if shop.does("inclusive", 0.5) else "total"
    if shop.does("rule before total", 0.3):
        till.rule()
    sign = shop.does("signs of totals", 0.4)
    text = shop.currency.format(sale.total) if sign else shop.currency.plain(sale.total)
    till.sum(shop.label(key), text, "total", face=face, sign=sign)
    if shop.does("rule after total", 0.2):
        till.rule()


def payment(till: Till) -> None:
    """Sets how it was paid, and a line for the tip where one is usual."""
    shop, sale, rng = till.shop, till.sale, till.rng
    if sale.paid_by == "cash":
        _sum(till, shop.label("cash"), sale.given, "cash")
        if sale.given > sale.total or shop.does("no change", 0.7):
            _sum(till, shop.label("change"), sale.given - sale.total, "change")
    elif sale.paid_by == "wallet":
        _sum(till, shop.label("wallet_payment"), sale.total, "wallet_payment")
    elif sale.paid_by == "card":
        paid = sale.total + (sale.tip or 0.0)
        if sale.tip is not None and shop.does("tip printed", 0.5):
            _sum(till, shop.label("tip"), sale.tip, "tip")
        _sum(till, shop.label("card_payment"), paid, "card_payment")
        if shop.does("no change on cards", 0.3):
            _sum(till, shop.label("change"), 0.0, "change")
        if shop.does("card number", 0.6):
            stars = rng.pick(("************", "XXXXXXXXXXXX", "**** **** **** ", "xxxxxxxxxxxx"))
            till.y = till.stated(shop.label("card_number"), [(stars + rng.digits(4), None)]).y1
        if shop.does("approval", 0.5):
            till.y = till.stated(shop.label("approval"), [(rng.digits(6), None)]).y1
    if shop.dishes and shop.country in ("US", "CA", "GB") and rng.flip(0.3):
        blank_tip(till)


def blank_tip(till: Till) -> None:
    """Sets lines for a tip, a total and a signature to be written by hand."""
    sheet = till.sheet
    till.y += 8
    for label in ("tip", "total"):
        key = sheet.put(
            f"{till.shop.label(label)}:", sheet.left, till.y, till.face, lines=1, role="question"
        )
        sheet.line(key.x1 + 6, key.y1 - 3, sheet.right, key.y1 - 3)
        sheet.pair(key, None)
        till.y = key.y1 + 6


def summary(till: Till) -> None:
    """Sets the summary of taxes: a small table of codes, nets and taxes."""
    shop, sale, sheet, face = till.shop, till.sale, till.sheet, till.face
    if not sale.tax or not shop.does("summary", 0.45):
        return
    till.y += 6
    if shop.does("summary title", 0.7):
        till.line(
            shop.label("summary"), align="left" if shop.does("summary left", 0.6) else "center"
        )
    heads = shop.cased(shop.filled(shop.picked("summary heads", shop.labels["summary_columns"])))
    columns = heads.split("|")
    stops = [
        sheet.left + round((sheet.right - sheet.left) * place / len(columns))
        for place in range(len(columns) + 1)
    ]
    net = sale.total - sale.tax
    code = shop.picked("summary code", ("SR", "S", "A", "T", "B", "1", "SR @", "ZRL="))
    rate = f"{shop.tax_rate * 100:g}%"
    if code.endswith("@"):
        code, rate = f"{code} {rate}", rate.rstrip("%")
    money = shop.currency.plain
    made = {2: [code, money(net)], 3: [code, money(net), money(sale.tax)],
            4: [code, rate, money(net), money(sale.tax)]}[len(columns)]  # fmt: skip
    rows = [columns, made]
    if shop.does("second rate", 0.25):
        rows.append([shop.picked("zero code", ("Z", "ZR", "OS", "E")), *made[1:]])
        rows[-1] = [*rows[-1][:-2], money(0.0), money(0.0)]
    if shop.does("summary sum", 0.2):
        rows.append([shop.label("total"), *([""] * (len(columns) - 3)), *made[-2:]])
    for row in rows:
        bottom = till.y
        for place, text in enumerate(row):
            if text:
                bottom = _cell(till, text, stops[place], stops[place + 1], place > 0, face).y1
        till.y = bottom


def _cell(till: Till, text: str, x0: int, x1: int, right: bool, face: Face) -> Block:
    return till.sheet.put(
        text, x0, till.y, face, width=x1 - x0 - 4, lines=1, align="right" if right else "left"
    )


def card_slip(till: Till) -> None:
    """Sets what a card terminal prints instead of items."""
    shop, sale, rng = till.shop, till.sale, till.rng
    for key, text in (
        (shop.label("card_payment"), ""),
        (shop.label("card_number"), "************" + rng.digits(4)),
        (shop.label("approval"), rng.digits(6)),
        ("TID", rng.digits(8)),
        ("MID", rng.digits(10)),
        ("AID", shops.pattern("A0000000######", rng)),
        ("Batch", rng.digits(4)),
    ):
        if not text:
            till.line(key, align="left")
        elif shop.does(f"slip {key}", 0.6):
            till.y = till.stated(key, [(text, None)]).y1
    till.y += 6
    if sale.tip is not None or shop.does("slip tip", 0.3):
        _sum(till, shop.label("amount_paid"), sale.total - (sale.tip or 0.0), "subtotal")
        _sum(till, shop.label("tip"), sale.tip or 0.0, "tip")
    _total(till, False)
