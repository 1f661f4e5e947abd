"""Providers: the companies that issue documents. A provider is a pure function of its number."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from hushdoc_training.invented import goods, phrases, places, shops, values
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Colour
from hushdoc_training.invented.word_lists import word_list, word_lists

_KEY = 0x9E3779B9
"""Seeds the providers; a document's own seed has no say in who its provider is."""

_COUNTRIES = (("US", 46.0), ("GB", 18), ("DE", 12), ("CA", 7), ("FR", 6), ("CH", 5), ("NL", 6))
_COUNTRY_NAMES = {
    "US": "USA", "GB": "United Kingdom", "CA": "Canada", "DE": "Germany", "FR": "France",
    "CH": "Switzerland", "NL": "Netherlands",
}  # fmt: skip
_MONEY = {
    "US": values.Money(sign="$"),
    "GB": values.Money(sign="£"),
    "CA": values.Money(sign="$"),
    "DE": values.Money(sign="€", after=True, spaced=True, thousands=".", point=","),
    "FR": values.Money(sign="€", after=True, spaced=True, thousands=".", point=","),
    "CH": values.Money(sign="CHF", spaced=True, thousands="'"),
    "NL": values.Money(sign="€", spaced=True, thousands=".", point=","),
}
_DATES = {
    "US": ("mm/dd/yyyy", "m/d/y", "Month d, yyyy", "mm-dd-yy", "Mon. d, yyyy"),
    "GB": ("dd/mm/yyyy", "d Month yyyy", "d Mon yyyy", "dd-MON-yy"),
    "CA": ("yyyy-mm-dd", "Month d, yyyy", "mm/dd/yyyy"),
}
_SHOP_DATES = {
    "%m/%d/%Y": "mm/dd/yyyy", "%m/%d/%y": "mm/dd/yy", "%d.%m.%Y": "dd.mm.yyyy",
    "%Y-%m-%d": "yyyy-mm-dd", "%d %b %Y": "d Mon yyyy", "%d-%b-%y": "dd-MON-yy",
    "%d/%m/%y": "dd/mm/yy", "%d-%m-%Y": "dd-mm-yyyy", "%B %d, %Y": "Month d, yyyy",
}  # fmt: skip
_TAXES = {
    "US": ("Sales Tax", "Tax", "State Tax"), "GB": ("VAT",), "CA": ("GST", "HST", "Tax"),
    "DE": ("VAT", "MwSt."), "FR": ("VAT", "TVA"), "CH": ("VAT", "MWST"), "NL": ("VAT", "BTW"),
}  # fmt: skip
_RATES = {
    "US": (0.05, 0.06, 0.07, 0.0825, 0.04), "GB": (0.2, 0.175, 0.05), "CA": (0.05, 0.13),
    "DE": (0.19, 0.07, 0.16), "FR": (0.2, 0.1, 0.055), "CH": (0.077, 0.081, 0.026),
    "NL": (0.21, 0.09),
}  # fmt: skip
_INKS: tuple[Colour, ...] = (
    (20, 20, 20), (16, 42, 92), (120, 20, 30), (12, 92, 62), (70, 40, 110), (150, 78, 10),
    (10, 90, 120), (60, 60, 70), (140, 30, 90), (34, 60, 34),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """A company, its habits and its goods."""

    number: int
    name: str
    trade: str
    country: str
    street: str
    town: str
    phone: str
    fax: str
    email: str
    web: str
    tax_id: str
    iban: str
    bank: str
    money: values.Money
    date_style: str
    tax_name: str
    tax_rate: float
    colour: Colour
    family: str
    habits: tuple[float, ...]  # 16 in [0, 1): its phrasing and choice of optional fields
    goods: tuple[tuple[str, float], ...]  # descriptions and unit prices on account
    wares: tuple[tuple[str, float], ...]  # the same over the counter
    most_items: int | None = None  # in one sale; None for what is usual
    words: tuple[str, ...] = ()  # that what it sells is called by

    @property
    def id(self) -> str:
        """How labels and splits name it."""
        return f"provider-{self.number:05d}"

    @property
    def address(self) -> str:
        """Street and town on two lines."""
        return f"{self.street}\n{self.town}"

    def phrasing(self, place: int, options: tuple[str, ...]) -> str:
        """Returns the phrasing this provider always uses, by one of its habits."""
        return options[int(self.habits[place] * len(options))]


@lru_cache(maxsize=4096)
def provider(number: int) -> Provider:
    """Returns the provider with this number.

    Example:
        >>> provider(7).id
        'provider-00007'
    """
    rng = Draws(_KEY, number)
    country = rng.weighted(_COUNTRIES)
    trade = phrases.trade(rng)
    name, short = _name(number, country, rng)
    web = f"{short}.{_domain(country)}"
    local = rng.integer(0, 6)
    own = places.street(rng)
    dishes = rng.flip(0.3)
    return Provider(
        number=number,
        name=name,
        trade=trade,
        country=country,
        street=own,
        town=places.town_line(rng, country),
        phone=values.phone(rng, local),
        fax=values.phone(rng, local),
        email=f"{rng.pick(('info', 'office', 'sales', 'billing', 'accounts', 'hello'))}@{web}",
        web=f"www.{web}",
        tax_id=_tax_id(country, rng),
        iban=_iban(country, rng),
        bank=f"{places.town(rng)} {rng.pick(('Savings Bank', 'Bank', 'National Bank', 'Trust'))}",
        money=_MONEY[country],
        date_style=rng.pick(_DATES.get(country, ("dd.mm.yyyy", "dd/mm/yyyy", "d Month yyyy"))),
        tax_name=rng.pick(_TAXES[country]),
        tax_rate=rng.pick(_RATES[country]),
        colour=rng.pick(_INKS),
        family=rng.pick(("sans", "serif", "times", "plain", "grotesque", "roman", "sans", "plain")),
        habits=tuple(rng.unit() for _ in range(16)),
        goods=tuple(_priced(rng, goods.sold(rng, trade)) for _ in range(40)),
        wares=tuple(_priced(rng, goods.bought(rng, dishes)) for _ in range(40)),
    )


@lru_cache(maxsize=4096)
def in_country(number: int, country: str) -> Provider:
    """Returns the provider with this number, with the name and the ways of a country's shop."""
    own = provider(number)
    if own.country == country:
        return own
    local = shops.shop(number, country)
    sign = next(text for text in word_lists("shops.money")[country] if text != "{}")
    *streets, town = local.address
    return replace(
        own,
        country=country,
        name=local.name,
        street=", ".join(streets) or own.street,
        town=town,
        phone=local.phone,
        fax=local.fax,
        tax_id=_number_of(local.tax_id) or own.tax_id,
        money=values.Money(
            sign=sign.replace("{}", "").strip(),
            after=sign.startswith("{}"),
            spaced=" " in sign,
            thousands=local.currency.thousands,
            point=local.currency.point,
        ),
        date_style=_SHOP_DATES.get(local.date_style, "dd/mm/yyyy"),
        tax_name=local.tax_name,
        tax_rate=local.tax_rate,
    )


def _number_of(text: str) -> str:
    """Returns a tax number without the words before it."""
    words = text.split()
    first = next((place for place, word in enumerate(words) if re.search(r"\d", word)), 0)
    return " ".join(words[first:])


def country_name(country: str) -> str:
    """Returns the country's name as it ends an address."""
    return _COUNTRY_NAMES.get(country) or word_lists("shops.nations").get(country, (country,))[0]


def _priced(rng: Draws, text: str) -> tuple[str, float]:
    return text, round(rng.real(1, rng.pick((9.0, 50.0, 400.0, 3000.0))), 2)


def _name(number: int, country: str, rng: Draws) -> tuple[str, str]:
    """Returns the full name and the one in its web address; no two numbers share a name.

    Each of four patterns steps through all combinations of its words (the step and their number
    have no common factor), so that equal names need equal numbers.
    """
    sectors, surnames = word_list("providers.sectors"), word_list("people.surnames")
    rank, pattern = divmod(number, 4)
    if pattern == 0:
        stem = shops.coined(rank)
        words = f"{stem} {rng.pick(sectors)}" if rng.flip(0.5) else stem
    elif pattern == 1:
        first, second = divmod(rank * 100_003 % 518_400, 720)
        stem = surnames[first] + surnames[second]
        words = f"{surnames[first]} & {surnames[second]}"
    else:
        owners, step = (surnames[:720], 7919) if pattern == 2 else (places.town_names(), 3217)
        owner, sector = divmod(rank * step % (len(owners) * len(sectors)), len(sectors))
        stem = (owners[owner] + sectors[sector]).replace(" ", "")
        words = f"{owners[owner]} {sectors[sector]}"
    if rng.flip(0.75):
        words = f"{words} {rng.pick(word_lists('providers.legal_forms')[country])}"
    return words, stem.lower()


def _domain(country: str) -> str:
    return {"US": "com", "GB": "co.uk", "CA": "ca"}.get(country, country.lower())


def _tax_id(country: str, rng: Draws) -> str:
    if country == "US":
        return f"{rng.digits(2)}-{rng.digits(7)}"
    if country == "CA":
        return f"{rng.digits(9)} RT0001"
    if country == "CH":
        return f"CHE-{rng.digits(3)}.{rng.digits(3)}.{rng.digits(3)}"
    digits = rng.digits(11 if country == "FR" else 9)
    return f"{country}{rng.pick(('', ' '))}{digits}{'B01' if country == 'NL' else ''}"


def _iban(country: str, rng: Draws) -> str:
    if country in ("US", "CA"):
        return f"{rng.digits(4)}-{rng.digits(6)}"
    check = rng.digits(2)
    groups = 3 if country == "NL" else 4
    bank = rng.letters(4) if country in ("GB", "NL") else rng.digits(4)
    return " ".join((f"{country}{check}", bank, *(rng.digits(4) for _ in range(groups))))


def slogan(rng: Draws) -> str:
    """Returns a line that companies put below their names."""
    word = rng.word("qualities.adjectives").capitalize()
    return f"{word} {phrases.noun(rng, 'sales')} since {rng.integer(1880, 2010)}"
