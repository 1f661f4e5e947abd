"""Shops: who prints till receipts, in many countries. A shop is a pure function of its number.

It has the number of a provider, so that configs with disjoint ranges share no shop, but is another
company with another name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from hushdoc_training.invented import goods, places, values
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.word_lists import word_list, word_lists

_T = TypeVar("_T")
_KEY = 0x5A17B0B5
"""Seeds the shops; a receipt's own seed has no say in whose it is."""

_TONGUES = {
    "de": "tills.labels_de",
    "en": "tills.labels_en",
    "es": "tills.labels_es",
    "fr": "tills.labels_fr",
    "id": "tills.labels_id",
    "it": "tills.labels_it",
    "nl": "tills.labels_nl",
    "pt": "tills.labels_pt",
}
_NUM_HABITS = 96
FACES = ("mono", "typewriter", "mono", "typewriter", "grotesque", "plain", "sans")
"""Families of typefaces of tills."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, kw_only=True, slots=True)
class Currency:
    """How a till prints amounts: a pattern with a sign, and the separators of the number."""

    pattern: str
    thousands: str
    point: str
    decimals: int

    def plain(self, amount: float) -> str:
        """Returns the amount without a sign."""
        text = f"{amount:,.{self.decimals}f}"
        return text.translate({ord(","): self.thousands, ord("."): self.point})

    def format(self, amount: float) -> str:
        """Returns the amount with its sign, if this till prints one."""
        return self.pattern.format(self.plain(amount))

    @property
    def sign(self) -> str:
        """The sign alone; nothing where none is printed."""
        return self.pattern.replace("{}", "").strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Shop:
    """A shop, its till's habits and its goods."""

    number: int
    name: str
    branch: str
    country: str
    address: tuple[str, ...]  # its parts, from the house to the country
    phone: str
    fax: str
    web: str
    tax_id: str
    registration: str
    currency: Currency
    price_level: float  # what costs 1 in one country costs this much here
    rounds_to: float  # what sums are rounded to; 0 for not at all
    tax_name: str
    tax_rate: float
    tax_manner: str  # "added", "included" or "none"
    service_rate: float
    date_style: str
    clock_style: str
    number_style: str
    code_style: str
    dishes: bool
    labels: Mapping[str, tuple[str, ...]]  # the words of its language for what stands on a receipt
    habits: Mapping[str, float]  # in [0, 1), by what they decide
    wares: tuple[tuple[str, str, float], ...]  # codes, descriptions and prices
    most_items: int | None = None  # in one sale; None for what is usual
    words: tuple[str, ...] = ()  # that what it sells is called by

    def does(self, habit: str, share: float) -> bool:
        """Returns whether this shop has a habit that this share of all shops have."""
        return self.habits[habit] < share

    def picked(self, habit: str, options: tuple[_T, ...]) -> _T:
        """Returns the option that this shop always takes."""
        return options[int(self.habits[habit] * len(options))]

    def label(self, name: str) -> str:
        """Returns this shop's own word for something, as its till prints it."""
        return self.cased(self.filled(self.picked(f"label {name}", self.labels[name])))

    def filled(self, text: str) -> str:
        """Returns a label with the shop's own tax and currency put in."""
        rate = f"{self.tax_rate * 100:g}%"
        return text.format(tax=self.tax_name, rate=rate, sign=self.currency.sign or "Amt")

    def cased(self, text: str) -> str:
        """Returns the text in the capitals of this till."""
        return text.upper() if self.does("capitals", 0.6) else text

    def day(self, when: datetime) -> str:
        """Returns the day as this till prints it."""
        return self.cased(_printed(when, self.date_style))

    def clock(self, when: datetime) -> str:
        """Returns the time as this till prints it."""
        return self.cased(_printed(when, self.clock_style))


@lru_cache(maxsize=4096)
def shop(number: int, country: str | None = None) -> Shop:
    """Returns the shop with this number, in its own country or in another one.

    Example:
        >>> shop(7).number
        7
    """
    rng = Draws(_KEY, number)
    own = rng.word("shops.countries")
    country = country or own
    dishes = rng.flip(0.45)
    name, stem = _name(number, dishes, country, rng)
    tongue = rng.pick(_of("shops.tongues", country, "en"))
    names = {label: options for label, options in word_lists("tills.labels_en").items()}
    level = float(rng.pick(_of("shops.price_levels", country, "1")))
    currency = _currency(country, rng)
    branch = rng.word("shops.branches") if rng.flip(0.25) else ""
    return Shop(
        number=number,
        name=name,
        branch=branch,
        country=country,
        address=_address(country, rng),
        phone=pattern(rng.pick(word_lists("shops.phones")[country]), rng),
        fax=pattern(rng.pick(word_lists("shops.phones")[country]), rng),
        web=rng.pick((f"www.{stem}.com", f"{stem}.com", f"info@{stem}.com", f"www.{stem}.net")),
        tax_id=pattern(rng.pick(_of("shops.tax_ids", country, "")), rng),
        registration=pattern(rng.pick(_of("shops.registrations", country, "")), rng),
        currency=currency,
        price_level=level,
        rounds_to=float(rng.pick(_of("shops.rounds_to", country, "0"))),
        tax_name=rng.pick(word_lists("shops.tax_names")[country]),
        tax_rate=float(rng.pick(word_lists("shops.tax_rates")[country])),
        tax_manner=rng.pick(_of("shops.tax_manners", country, "included")),
        service_rate=float(rng.pick(_of("shops.service_rates", country, "0"))) * dishes,
        date_style=rng.pick(_of("shops.dates", country, *word_lists("shops.dates")["other"])),
        clock_style=rng.word("tills.clocks"),
        number_style=rng.word("tills.numbers"),
        code_style=rng.word("tills.codes"),
        dishes=dishes,
        labels=names | word_lists(_TONGUES[tongue]),
        habits=Habits(number),
        wares=tuple(_ware(rng, dishes, level, currency, number) for _ in range(40)),
    )


class Habits(dict[str, float]):
    """Habits by name, each drawn from the shop's own stream when it is first asked for."""

    def __init__(self, number: int, given: Mapping[str, float] | None = None) -> None:
        """Begins with the habits that are given."""
        super().__init__(given or {})
        rng = Draws(_KEY, number, 1)
        self._units = [rng.unit() for _ in range(_NUM_HABITS)]

    def __missing__(self, name: str) -> float:
        """Draws a habit."""
        place = zlib.crc32(name.encode())
        self[name] = (self._units[place % _NUM_HABITS] + place / 2**32) % 1
        return self[name]


def pattern(text: str, rng: Draws) -> str:
    """Returns a number after a pattern: # is a digit, @ a capital letter."""
    return "".join(
        str(rng.integer(0, 9)) if sign == "#" else rng.letters(1) if sign == "@" else sign
        for sign in text
    )


def _printed(when: datetime, style: str) -> str:
    """Returns a moment after a pattern of strftime's, in English whatever the process' locale."""
    month, hour = values.MONTHS[when.month - 1], when.hour % 12 or 12
    weekday = _WEEKDAYS[when.weekday()]
    parts = {
        "%-d": f"{when.day}", "%d": f"{when.day:02d}", "%-m": f"{when.month}",
        "%m": f"{when.month:02d}", "%y": f"{when.year % 100:02d}", "%Y": f"{when.year}",
        "%b": month[:3], "%B": month, "%a": weekday[:3], "%A": weekday, "%H": f"{when.hour:02d}",
        "%-I": f"{hour}", "%I": f"{hour:02d}", "%M": f"{when.minute:02d}",
        "%S": f"{when.second:02d}", "%p": "AM" if when.hour < 12 else "PM",
    }  # fmt: skip
    return re.sub(r"%-?[a-zA-Z]", lambda part: parts[part[0]], style)


def _of(table: str, country: str, *otherwise: str) -> tuple[str, ...]:
    return word_lists(table).get(country, otherwise)


def _currency(country: str, rng: Draws) -> Currency:
    sample = rng.pick(word_lists("shops.numbers")[country])
    whole, point, parts = re.fullmatch(r"(1\D?234)(?:(\D)(\d+))?", sample).groups()  # type: ignore[union-attr]
    return Currency(
        pattern=rng.pick(word_lists("shops.money")[country]),
        thousands=whole[1:-3],
        point=point or ".",
        decimals=len(parts or ""),
    )


def _address(country: str, rng: Draws) -> tuple[str, ...]:
    parts = [_placed(rng.pick(word_lists("shops.streets")[country]), country, rng)]
    areas = _of("shops.areas", country)
    for _ in range(rng.weighted(((0, 2.0), (1, 4.0), (2, 1.5))) if areas else 0):
        parts.append(_placed(rng.pick(areas), country, rng))
    parts.append(_placed(rng.pick(word_lists("shops.towns")[country]), country, rng))
    nations = _of("shops.nations", country)
    if nations and rng.flip(0.25):
        parts.append(nations[0])
    return tuple(parts)


def _placed(text: str, country: str, rng: Draws) -> str:
    """Returns a part of an address after its pattern."""
    drawn = {
        "n": lambda: str(rng.integer(100, 9800)),
        "h": lambda: str(rng.integer(1, 180)),
        "u": lambda: str(rng.integer(1, 12)),
        "compass": lambda: rng.pick(("N", "S", "E", "W", "North", "N.", "S.", "East")),
        "way": lambda: rng.word("places.streets"),
        "type": lambda: rng.word("places.street_types"),
        "town": lambda: places.town(rng),
        "state": lambda: rng.word("places.state_codes"),
        "zip": lambda: f"{rng.integer(10000, 99899)}",
        "local": lambda: _local(country, rng),
    }
    filled = re.sub(r"\{(\w+)\}", lambda gap: drawn[gap[1]](), text)
    return pattern(filled, rng)


def _local(country: str, rng: Draws) -> str:
    """Returns a name of a place that sounds like the country's."""
    syllables = _of("shops.syllables", country)
    if not syllables:
        return places.town(rng)
    return "".join(rng.pick(syllables) for _ in range(rng.integer(2, 3))).capitalize()


def _ware(
    rng: Draws, dishes: bool, level: float, currency: Currency, number: int
) -> tuple[str, str, float]:
    code = pattern(word_list("tills.codes")[number % len(word_list("tills.codes"))], rng)
    text = goods.bought(rng, dishes)
    if rng.flip(0.2):
        text = f"{text} {rng.word('goods.sizes')}"
    price = rng.real(0.4, rng.pick((6.0, 14.0, 30.0, 90.0))) * level
    step = 500.0 if level > 1000 else 1.0 if currency.decimals == 0 else 0.0
    price = max(step, round(price / step) * step) if step else round(price, 2)
    return code, text, round(price, rng.pick((1, 2, 2))) or 1.0


def coined(rank: int) -> str:
    """Returns a word that looks like a name; no two ranks below 40,600 share one."""
    heads, middles, tails = (
        word_list(f"providers.name_{part}") for part in ("heads", "middles", "tails")
    )
    place, last = divmod(rank * 15013 % 40600, len(tails))
    return heads[place % len(heads)] + middles[place // len(heads)] + tails[last]


def _name(number: int, dishes: bool, country: str, rng: Draws) -> tuple[str, str]:
    """Returns the full name and its letters for a web address; no two numbers share a name.

    Each of four patterns steps through all pairs of its words (the step and their number have no
    common factor), so that equal names need equal numbers.
    """
    kinds, surnames = word_list("shops.kinds"), word_list("people.surnames")
    rank, manner = divmod(number, 4)
    if manner == 0:
        stem = coined(rank)
        kind = rng.word("shops.food_kinds") if dishes else rng.pick(kinds)
        words = f"{stem} {kind}" if rng.flip(0.8) else stem
    elif manner == 1:
        adjectives, nouns = word_list("shops.adjectives"), word_list("shops.nouns")
        first, second = divmod(rank * 1009 % (len(adjectives) * len(nouns)), len(nouns))
        again = rank // (len(adjectives) * len(nouns))
        words = f"{adjectives[first]} {nouns[second]}{f' {again + 1}' if again else ''}"
        kind = rng.word("shops.food_kinds") if dishes else rng.pick(kinds)
        words = f"{words} {kind}" if rng.flip(0.7) else words
    else:
        owners = surnames[:720] if manner == 2 else places.town_names()
        place = rank * 7919 % (len(owners) * len(kinds))
        owner, kind_place = divmod(place, len(kinds))
        ending = rng.pick(("'s", "", " & Sons", "")) if manner == 2 else ""
        words = f"{owners[owner]}{ending} {kinds[kind_place]}"
    stem = re.sub(r"\W", "", words).lower()
    form = rng.pick(word_lists("shops.legal_forms")[country])
    return f"{words} {form}".strip(), stem
