"""Till sales: what was bought at a till, with modifiers, discounts, service, tax and rounding."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hushdoc_training.invented import goods
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.shops import Shop, pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class TillItem:
    """One line: so many of a thing at a price, less its discount."""

    code: str
    description: str
    quantity: int
    price: float
    discount: float
    amount: float  # quantity times price, less the discount
    tax_code: str
    modifiers: tuple[tuple[str, float], ...]  # texts and what they cost, 0 for nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class TillSale:
    """A sale at a till. Total is subtotal, less discount, with service, added tax and rounding."""

    shop: Shop
    when: datetime
    number: str
    staff: str
    items: tuple[TillItem, ...]
    subtotal: float
    discount: float
    service: float
    tax: float  # added to the sum, or contained in it
    unrounded: float
    total: float
    paid_by: str  # "cash", "card", "wallet" or "" for an open bill
    given: float
    tip: float | None  # paid on top, and not part of the total

    @property
    def rounding(self) -> float:
        """What rounding added to the sum."""
        return round(self.total - self.unrounded, 2)

    @property
    def quantity(self) -> int:
        """How many things were bought."""
        return sum(item.quantity for item in self.items)


def draw_till_sale(shop: Shop, rng: Draws) -> TillSale:
    """Returns a sale of this shop."""
    most = rng.weighted(((1, 1.0), (3, 3.0), (6, 3.0), (10, 1.5), (18, 0.7)))
    chosen = rng.sample(shop.wares, rng.integer(1, shop.most_items or most))
    texts = goods.called((text for _, text, _ in chosen), tuple(map(shop.cased, shop.words)))
    items = tuple(
        _item(shop, code, text, price, rng)
        for (code, _, price), text in zip(chosen, texts, strict=True)
    )
    subtotal = _rounded(
        sum(item.amount + sum(cost for _, cost in item.modifiers) for item in items), shop
    )
    share = rng.pick((0.05, 0.1, 0.15, 0.2)) if rng.flip(0.12) else 0.0
    discount = _rounded(subtotal * share, shop)
    service = _rounded((subtotal - discount) * shop.service_rate, shop)
    taxed = subtotal - discount + service
    if shop.tax_manner == "added":
        tax = _rounded(taxed * shop.tax_rate, shop)
        unrounded = _rounded(taxed + tax, shop)
    else:
        tax = _rounded(taxed - taxed / (1 + shop.tax_rate), shop)
        unrounded = _rounded(taxed, shop)
    step = shop.rounds_to
    total = _rounded(round(unrounded / step) * step, shop) if step else unrounded
    total = total or unrounded
    paid_by = rng.weighted((("cash", 4.5), ("card", 3.5), ("wallet", 0.5), ("", 1.0)))
    return TillSale(
        shop=shop,
        when=datetime(rng.integer(2005, 2025), 1, 1, 7, 0)
        + timedelta(days=rng.integer(0, 364), seconds=rng.integer(0, 15 * 3600)),
        number=pattern(shop.number_style, rng),
        staff=_staff(rng),
        items=items,
        subtotal=subtotal,
        discount=discount,
        service=service,
        tax=tax if shop.tax_manner != "none" else 0.0,
        unrounded=unrounded,
        total=total,
        paid_by=paid_by,
        given=_given(total, shop.price_level, rng) if paid_by == "cash" else total,
        tip=_rounded(total * rng.real(0.05, 0.25), shop)
        if shop.dishes and shop.country in ("US", "CA") and rng.flip(0.3)
        else None,
    )


def _item(shop: Shop, code: str, text: str, price: float, rng: Draws) -> TillItem:
    quantity = rng.weighted(((1, 7.0), (2, 2.0), (3, 0.8), (5, 0.3), (12, 0.15)))
    full = quantity * price
    share = rng.pick((0.1, 0.2, 0.5)) if rng.flip(0.06) else 0.0
    modifiers: list[tuple[str, float]] = []
    if rng.flip(0.15 if shop.dishes else 0.03):
        for _ in range(rng.integer(1, 2)):
            cost = _rounded(price * 0.1, shop) if rng.flip(0.3) else 0.0
            modifiers.append((rng.word("tills.modifiers"), cost))
    discount = _rounded(full * share, shop)
    return TillItem(
        code=code,
        description=text,
        quantity=quantity,
        price=price,
        discount=discount,
        amount=_rounded(full - discount, shop),
        tax_code=rng.word("tills.tax_codes") if shop.does("tax codes", 0.6) else "",
        modifiers=tuple(modifiers),
    )


def _rounded(amount: float, shop: Shop) -> float:
    return round(amount, shop.currency.decimals)


def _given(total: float, level: float, rng: Draws) -> float:
    """Returns what a customer may hand over for a sum: the sum, or the next round note."""
    if rng.flip(0.3):
        return total
    note = rng.pick((1.0, 5.0, 10.0, 50.0, 100.0)) * max(1.0, level)
    return float(-(-total // note) * note)


def _staff(rng: Draws) -> str:
    text = rng.word("tills.staff").format(
        given=rng.word("people.given_names"),
        surname=rng.word("people.surnames"),
        letter=rng.letters(1),
    )
    return pattern(text, rng)
