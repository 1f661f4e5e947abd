"""Till receipts: tills, counters, restaurants and card terminals of many countries.

They are a document type beside `receipt`, whose pages stay as they are: models that were trained on
those, and figures that were measured on them, depend on their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hushdoc_training.invented import shops, till_parts, till_sums
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Block, Face, Mark, Sheet
from hushdoc_training.invented.shops import Shop
from hushdoc_training.invented.till_parts import Till
from hushdoc_training.invented.till_sales import TillItem, draw_till_sale

_ON_PAPER = 0.3
"""Share of receipts that lie on a larger sheet when they are scanned."""


def till_receipt(family: str, shop: Shop, rng: Draws) -> Sheet:
    """Returns a receipt of this shop in this family of layouts."""
    width = {"card_slip": 300, "lines": 330, "guest_check": 350}.get(family, 400)
    width += round(shop.habits["paper width"] * 90)
    sheet = Sheet(width=width, height=8000, margin=10 + round(shop.habits["margin"] * 24))
    size = 11 + round(shop.habits["size"] * 4)
    face = Face(family=shop.picked("face", shops.FACES), size=size)
    sale = draw_till_sale(shop, rng)
    till = Till(sheet=sheet, rng=rng, sale=sale, face=face, y=rng.integer(6, 40))
    till_parts.head(till)
    till_parts.customer(till)
    facts_below = shop.does("facts below", 0.25 if family != "guest_check" else 0.1)
    if not facts_below:
        till_parts.facts(till)
    FAMILIES[family](till)
    if facts_below:
        till.y += 6
        till_parts.facts(till)
    till_parts.foot(till)
    sheet.height = till.y + rng.integer(6, 60)
    return _on_paper(sheet, rng) if rng.flip(_ON_PAPER) else sheet


def columns(till: Till) -> None:
    """Items in columns under their heads, with codes above or before the names."""
    shop = till.shop
    names = ["item_quantity"] * shop.does("column quantity", 0.9)
    names += ["item_price"] * shop.does("column price", 0.75)
    names += ["item_discount"] * shop.does("column discount", 0.15)
    names += ["item_amount"]
    name_above = shop.does("name above", 0.55)
    if shop.does("quantity first", 0.35) and "item_quantity" in names:
        names = ["item_quantity", "item_description", *names[1:]]
        name_above = False
    else:
        names = ["item_description", *names]
    stops = _stops(till, names, name_above)
    if shop.does("heads", 0.85):
        till.rule()
        bottom = till.y
        for place, name in enumerate(names):
            key = {"item_description": "item", "item_discount": "item_discount"}.get(
                name, name.removeprefix("item_")
            )
            right = place > 0 and name != "item_description"
            block = _cell(till, shop.label(key), stops, place, right, name, heads=True)
            bottom = max(bottom, block.y1)
        till.y = bottom
    till.rule()
    for item in till.sale.items:
        _columns_row(till, item, names, stops, name_above)
    till.rule()
    _ending(till)


def _columns_row(
    till: Till, item: TillItem, names: Sequence[str], stops: Sequence[int], name_above: bool
) -> None:
    shop, sheet = till.shop, till.sheet
    texts = {
        "item_quantity": _count(till, item),
        "item_price": shop.currency.plain(item.price),
        "item_discount": shop.currency.plain(item.discount),
        "item_amount": shop.currency.format(item.amount)
        if shop.does("signs of items", 0.2)
        else shop.currency.plain(item.amount),
    }
    blocks: list[Block] = []
    coded = shop.does("codes", 0.45)
    description = shop.cased(item.description)
    if name_above:
        if coded and shop.does("code line", 0.5):
            blocks.append(till.put(item.code, sheet.left, "item_code"))
            till.y = blocks[-1].y1
            coded = False
        name = _described(till, description, sheet.left, sheet.right, item.code if coded else "")
        till.y, blocks = name.y1, [name, *blocks]
    bottom = till.y
    for place, field in enumerate(names):
        if field == "item_description":
            if name_above:
                continue
            code = item.code if coded and shop.does("code before", 0.5) else ""
            block = _described(till, description, stops[place], stops[place + 1] - 6, code)
            blocks = [block, *blocks]
        else:
            right = place > 0
            block = _cell(till, texts[field], stops, place, right, field)
            blocks.append(block)
        bottom = max(bottom, block.y1)
    _tax_code(till, item)
    till.y = bottom
    sheet.rows.append(tuple(block.segment for block in blocks))
    _modifiers(till, item, stops[0] + till.face.size)


def _stops(till: Till, names: Sequence[str], name_above: bool) -> list[int]:
    sheet = till.sheet
    shares = {"item_description": 0.6 if name_above else 2.6, "item_quantity": 0.7}
    edge = sheet.right - (round(till.face.size * 1.8) if till.shop.does("tax codes", 0.6) else 0)
    total = sum(shares.get(name, 1.2) for name in names)
    stops, so_far = [sheet.left], 0.0
    for name in names:
        so_far += shares.get(name, 1.2)
        stops.append(sheet.left + round((edge - sheet.left) * so_far / total))
    return stops


def _cell(
    till: Till,
    text: str,
    stops: Sequence[int],
    place: int,
    right: bool,
    field: str | None,
    *,
    heads: bool = False,
) -> Block:
    return till.sheet.put(
        text,
        stops[place],
        till.y,
        till.face,
        width=stops[place + 1] - stops[place] - (0 if place == len(stops) - 2 else 6),
        align="right" if right else "left",
        lines=1,
        role="question" if heads else "answer",
        field=field,
    )


def _described(till: Till, text: str, x0: int, x1: int, code: str) -> Block:
    """Sets an item's name, behind its code if there is one."""
    if code:
        x0 = till.put(code, x0, "item_code").x1 + max(4, till.face.size // 2)
    return till.sheet.put(
        text,
        x0,
        till.y,
        till.face,
        width=max(60, x1 - x0),
        lines=2,
        role="answer",
        field="item_description",
    )


def _count(till: Till, item: TillItem) -> str:
    return till.shop.picked(
        "count style", ("{}", "{}", "{}", "{}.00", "{} x", "{}x", "{} PC")
    ).format(item.quantity)


def _tax_code(till: Till, item: TillItem) -> None:
    """Sets what says how an item is taxed, behind its amount."""
    if item.tax_code:
        wide = till.face.wide(item.tax_code)
        x = till.sheet.right - wide
        till.sheet.put(
            item.tax_code, x, till.y, till.face, width=wide + 4, lines=1, field="item_tax_code"
        )


def _modifiers(till: Till, item: TillItem, x: int) -> None:
    """Sets what belongs to an item below it, and its discount."""
    shop = till.shop
    mark = shop.picked("modifier mark", ("", "- ", "* ", "+ ", ">> ", "  "))
    for text, cost in item.modifiers:
        block = till.put(f"{mark}{shop.cased(text)}", x, "item_modifier")
        if cost:
            amount = shop.currency.plain(cost)
            till.put(amount, till.amounts(amount), "item_modifier_amount")
        till.y = block.y1
    if item.discount:
        block = till.put(shop.label("item_discount"), x, None)
        amount = shop.currency.plain(-item.discount)
        till.put(amount, till.amounts(amount), "item_discount")
        till.y = block.y1


def lines(till: Till) -> None:
    """A long receipt: names left, amounts right, counts below where there are several."""
    shop, sheet = till.shop, till.sheet
    till.rule()
    below = shop.does("counts below", 0.6)
    for item in till.sale.items:
        amount = shop.currency.plain(item.amount)
        counted = item.quantity > 1 or shop.does("all counted", 0.2)
        blocks: list[Block] = []
        if counted and not below and shop.does("counts above", 0.5):
            blocks += _times(till, item)
            till.y = blocks[-1].y1
        code = item.code if shop.does("codes", 0.35) else ""
        room = till.amounts(amount) - sheet.left - 8
        name = _described(till, shop.cased(item.description), sheet.left, sheet.left + room, code)
        blocks = [name, *blocks]
        first = counted and below
        if first:
            till.y = name.y1
            blocks += _times(till, item)
        price = till.put(amount, till.amounts(amount), "item_amount")
        _tax_code(till, item)
        till.y = price.y1 if first else max(name.y1, price.y1)
        sheet.rows.append(tuple(block.segment for block in (*blocks, price)))
        _modifiers(till, item, sheet.left + till.face.size)
    till.rule()
    _ending(till)


def _times(till: Till, item: TillItem) -> list[Block]:
    """Sets a count and a price on the line that is under way."""
    shop, face = till.shop, till.face
    count = till.put(_count(till, item).rstrip(" x"), till.sheet.left + face.size, "item_quantity")
    mark = till.put(shop.picked("times", ("x", "@", "X", "*")), count.x1 + face.size // 2, None)
    price = shop.currency.plain(item.price)
    return [count, till.put(price, mark.x1 + face.size // 2, "item_price")]


def guest_check(till: Till) -> None:
    """A restaurant's bill: counts first, then names, amounts at the right edge."""
    shop, sheet = till.shop, till.sheet
    till.rule()
    for item in till.sale.items:
        amount = shop.currency.plain(item.amount)
        blocks = [till.put(_count(till, item), sheet.left, "item_quantity")]
        x = max(blocks[0].x1 + 6, sheet.left + round(till.face.size * 2.2))
        name = _described(till, shop.cased(item.description), x, till.amounts(amount) - 8, "")
        price = till.put(amount, till.amounts(amount), "item_amount")
        till.y = max(name.y1, price.y1)
        sheet.rows.append(tuple(block.segment for block in (name, *blocks, price)))
        _modifiers(till, item, x)
    till.rule()
    _ending(till)


def card_slip(till: Till) -> None:
    """A slip of a card terminal, without items."""
    till.rule()
    till_sums.card_slip(till)
    till.rule()


def _ending(till: Till) -> None:
    """Sets sums, payment and the summary of taxes."""
    till_sums.sums(till)
    till_sums.payment(till)
    till_sums.summary(till)


def _on_paper(sheet: Sheet, rng: Draws) -> Sheet:
    """Returns the receipt on a larger sheet, as a scanner with a wide glass sees it."""
    right, down = rng.integer(0, sheet.width), rng.integer(0, sheet.height // 2)
    x, y = rng.integer(0, right), rng.integer(0, down)
    sheet.width, sheet.height = sheet.width + right, sheet.height + down
    sheet.inks = [
        ink._replace(
            x=ink.x + x,
            y=ink.y + y,
            box=(ink.box[0] + x, ink.box[1] + y, ink.box[2] + x, ink.box[3] + y),
        )
        for ink in sheet.inks
    ]
    sheet.marks = [_moved(mark, x, y) for mark in sheet.marks]
    return sheet


def _moved(mark: Mark, x: int, y: int) -> Mark:
    if mark.shape == "dots":  # x0, y, x1, y
        x0, y0, x1, y1 = mark.points
        return mark._replace(points=(x0 + x, y0 + y, x1 + x, y1 + y))
    points = tuple(value + (y if place % 2 else x) for place, value in enumerate(mark.points))
    return mark._replace(points=points)


FAMILIES: Mapping[str, Callable[[Till], None]] = {
    "card_slip": card_slip,
    "columns": columns,
    "guest_check": guest_check,
    "lines": lines,
}
