"""Sales: who sold what to whom, for how much; an invoice or a receipt reports one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from hushdoc_training.invented import goods, people, phrases, places, values
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One line: so many of a thing at a price; amount is their product."""

    code: str
    description: str
    quantity: float
    price: float
    amount: float

    @property
    def count(self) -> str:
        """The quantity as it is written."""
        return f"{self.quantity:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sale:
    """A sale. Subtotal is the sum of all items, total is subtotal and tax."""

    provider: Provider
    customer: str
    customer_address: str
    number: str
    day: date
    due: date
    items: tuple[Item, ...]
    subtotal: float
    tax: float
    total: float

    def money(self, amount: float, *, sign: bool = True) -> str:
        """Returns an amount as the provider writes it."""
        money = self.provider.money
        return money.format(amount) if sign else money.plain(amount)

    def formatted(self, day: date) -> str:
        """Returns a day as the provider writes it."""
        return values.format_date(day, self.provider.date_style)


def draw_sale(provider: Provider, rng: Draws, *, wares: bool = False) -> Sale:
    """Returns a sale of this provider's goods."""
    sold = provider.wares if wares else provider.goods
    most = rng.weighted(((2, 1.0), (4, 2.0), (7, 3.0), (12, 2.0), (20, 0.8)))
    chosen = rng.sample(sold, provider.most_items or most)
    chosen = chosen[: rng.integer(1, len(chosen))]
    texts = goods.called((text for text, _ in chosen), provider.words)
    items = tuple(
        _item(text, price, rng, wares) for (_, price), text in zip(chosen, texts, strict=True)
    )
    subtotal = round(sum(item.amount for item in items), 2)
    tax = round(subtotal * provider.tax_rate, 2)
    day = values.day(rng, 1995, 2024)
    firm = rng.flip(0.6)
    return Sale(
        provider=provider,
        customer=phrases.company(rng) if firm else people.name(rng),
        customer_address=places.address(rng, provider.country),
        number=_number(provider, rng, day),
        day=day,
        due=day + timedelta(days=rng.pick((7, 10, 14, 15, 30, 30, 45, 60))),
        items=items,
        subtotal=subtotal,
        tax=tax,
        total=round(subtotal + tax, 2),
    )


def _item(description: str, price: float, rng: Draws, wares: bool) -> Item:
    if wares:
        quantity = float(rng.weighted(((1, 7.0), (2, 2.0), (3, 1.0), (6, 0.3))))
        price = round(price % 40 + 0.5, 2)
    elif rng.flip(0.12):
        quantity = rng.integer(1, 60) / 4
    else:
        quantity = float(rng.integer(1, rng.pick((3, 10, 100))))
    code = f"{rng.letters(1)}{rng.digits(4)}" if rng.flip(0.5) else rng.digits(5)
    return Item(
        code=code,
        description=description,
        quantity=quantity,
        price=price,
        amount=round(quantity * price, 2),
    )


def _number(provider: Provider, rng: Draws, day: date) -> str:
    serial = rng.integer(1, 99999)
    return provider.phrasing(
        2,
        (
            f"{serial:05d}",
            f"INV-{serial}",
            f"{day.year}-{serial:04d}",
            f"{day.year % 100:02d}/{serial}",
            f"R{day.year}{serial:05d}",
            f"{provider.name[:2].upper()}-{serial:06d}",
            f"{serial}",
            f"{day.year}{day.month:02d}-{serial % 1000:03d}",
        ),
    )
