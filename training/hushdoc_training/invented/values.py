"""Values: dates, amounts, codes and telephone numbers as they are written on paper."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from hushdoc_training.invented.random_draws import Draws

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

_DATE_PATTERNS = {
    "m/d/y": "{m}/{d}/{yy}",
    "mm/dd/yy": "{m:02}/{d:02}/{yy}",
    "mm/dd/yyyy": "{m:02}/{d:02}/{yyyy}",
    "m-d-y": "{m}-{d}-{yy}",
    "mm-dd-yy": "{m:02}-{d:02}-{yy}",
    "dd.mm.yyyy": "{d:02}.{m:02}.{yyyy}",
    "dd/mm/yyyy": "{d:02}/{m:02}/{yyyy}",
    "yyyy-mm-dd": "{yyyy:04}-{m:02}-{d:02}",
    "d Mon yyyy": "{d} {month:.3} {yyyy}",
    "dd-MON-yy": "{d:02}-{upper:.3}-{yy}",
    "Month d, yyyy": "{month} {d}, {yyyy}",
    "Mon. d, yyyy": "{month:.3}. {d}, {yyyy}",
    "MONTH D, YYYY": "{upper} {d}, {yyyy}",
    "d Month yyyy": "{d} {month} {yyyy}",
    "Month d yyyy": "{month} {d} {yyyy}",
    "Month yyyy": "{month} {yyyy}",
}
DATE_STYLES = tuple(_DATE_PATTERNS)
"""Styles of forms, which draw them by their places."""

_FURTHER = {"dd/mm/yy": "{d:02}/{m:02}/{yy}", "dd-mm-yyyy": "{d:02}-{m:02}-{yyyy}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """How amounts are written: the sign before or after them, and their separators.

    Example:
        >>> Money(sign="$").format(1234.5)
        '$1,234.50'
    """

    sign: str = "$"
    after: bool = False
    spaced: bool = False
    thousands: str = ","
    point: str = "."

    def plain(self, amount: float, decimals: int = 2) -> str:
        """Returns the amount without a sign."""
        text = f"{amount:,.{decimals}f}"
        return text.translate({ord(","): self.thousands, ord("."): self.point})

    def format(self, amount: float, decimals: int = 2) -> str:
        """Returns the amount with its sign."""
        text, gap = self.plain(amount, decimals), " " if self.spaced else ""
        return f"{text}{gap}{self.sign}" if self.after else f"{self.sign}{gap}{text}"


def day(rng: Draws, first_year: int = 1968, last_year: int = 2024) -> date:
    """Returns a day."""
    return date(rng.integer(first_year, last_year), 1, 1) + timedelta(days=rng.integer(0, 364))


def format_date(when: date, style: str) -> str:
    """Returns the day in one of DATE_STYLES, or of a few more."""
    month = MONTHS[when.month - 1]
    return (_DATE_PATTERNS | _FURTHER)[style].format(
        d=when.day,
        m=when.month,
        yy=f"{when.year % 100:02d}",
        yyyy=when.year,
        month=month,
        upper=month.upper(),
    )


def clock(rng: Draws) -> str:
    """Returns a time of day."""
    hour, minute = rng.integer(1, 12), rng.integer(0, 59)
    half = rng.pick(("AM", "PM", "a.m.", "p.m.", "am"))
    return rng.pick((f"{hour}:{minute:02d} {half}", f"{hour + 6:02d}:{minute:02d}"))


def phone(rng: Draws, style: int | None = None) -> str:
    """Returns a telephone number; the style keeps one writer's numbers alike."""
    area, middle, last = rng.integer(201, 989), rng.integer(200, 999), rng.integer(0, 9999)
    texts = (
        f"({area}) {middle}-{last:04d}",
        f"{area}-{middle}-{last:04d}",
        f"{area}/{middle}-{last:04d}",
        f"{area}.{middle}.{last:04d}",
        f"+1 {area} {middle} {last:04d}",
        f"0{area} {middle}{last:04d}",
        f"+44 {area % 90 + 10} {middle} {last:04d}",
        f"{middle}-{last:04d}",
        f"1-800-{middle}-{last:04d}",
        f"Ext. {last}",
    )
    return rng.pick(texts) if style is None else texts[style % 7]


_CODE_PATTERNS = (
    "D3:9", "A1-D2:5", "A2-D4-A1", "Y-D3", "D3-D2-D4", "A3D4", "D2.D3.D2", "A1D6", "D4/Y", "#D2:6",
    "A2 D5", "D4 D4", "A2:3-Y-D2:4", "No. D1:5", "A1D1A1-D2", "D1:2-D3:6",
)  # fmt: skip
"""Reference numbers: A2 is two capital letters, D2:5 two to five digits, Y a year of two digits."""


def code(rng: Draws) -> str:
    """Returns a reference number such as offices give to anything."""
    pattern, year = rng.pick(_CODE_PATTERNS), rng.integer(60, 99)

    def filled(gap: re.Match[str]) -> str:
        sign, least, most = gap.groups()
        count = rng.integer(int(least), int(most)) if most else int(least)
        return rng.letters(count) if sign == "A" else rng.digits(count)

    return re.sub(r"([AD])(\d)(?::(\d))?", filled, pattern.replace("Y", str(year)))


def count(rng: Draws) -> str:
    """Returns an integer, mostly a small one."""
    most = rng.pick((9, 60, 500, 9000, 250_000, 4_000_000))
    number = rng.integer(0 if most == 9 else 1, most)
    return f"{number:,}" if rng.flip(0.8) else str(number)


def amount(rng: Draws, money: Money | None = None) -> str:
    """Returns a sum of money, of any size, in full or rounded."""
    most = rng.pick((90.0, 800.0, 9_000.0, 90_000.0, 2_000_000.0))
    decimals = 2 if rng.flip(0.65) else 0
    style = money or Money(sign=rng.pick(("$", "$", "$", "£")))
    value = rng.real(1, most)
    if rng.flip(0.3):
        value = round(value, -1) + 10
    text = style.format(value, decimals) if rng.flip(0.8) else style.plain(value, decimals)
    text = text.strip()
    return f"({text})" if rng.flip(0.03) else text


def percent(rng: Draws) -> str:
    """Returns a share."""
    number = rng.pick((f"{rng.integer(0, 100)}", f"{rng.real(0, 100):.1f}"))
    return number + rng.pick(("%", "%", " %", ""))


def decimal(rng: Draws) -> str:
    """Returns a reading of an instrument."""
    whole = rng.real(0, rng.pick((1.0, 10.0, 100.0, 1000.0)))
    text = f"{whole:.{rng.integer(0, 3)}f}"
    if rng.flip(0.06):
        return rng.pick(("<", ">", "±", "~")) + text
    if rng.flip(0.04):
        return rng.pick(("N/A", "ND", "n.d.", "--", "---", "nil", "tr.", "*"))
    return text


def measure(rng: Draws) -> str:
    """Returns a reading with its unit."""
    unit = rng.word("qualities.units")
    number = decimal(rng)
    return rng.pick((f"{number} {unit}", f"{number} {unit}", f"{number}{unit}"))


def period(rng: Draws) -> str:
    """Returns a stretch of time."""
    first, length = rng.integer(0, 6), rng.integer(1, 5)
    year = rng.integer(1970, 2012)
    month, later = MONTHS[first], MONTHS[first + length]
    return rng.pick(
        (
            f"{month} - {later} {year}",
            f"{month[:3]}. {year}",
            f"{rng.integer(1, 4)}Q{year % 100:02d}",
            f"{rng.pick(('1st', '2nd', '3rd', '4th'))} Quarter {year}",
            f"{year}-{(year + 1) % 100:02d}",
            f"FY {year}",
            f"{rng.integer(2, 52)} {rng.pick(('weeks', 'days', 'months', 'years'))}",
            f"{first + 1}/{rng.integer(1, 9)} - {first + length + 1}/{rng.integer(10, 28)}",
            f"{year}",
        )
    )


def email(rng: Draws, domain: str) -> str:
    """Returns an e-mail address at this domain."""
    given = rng.word("people.given_names").lower()
    surname = rng.word("people.surnames").lower()
    user = rng.pick(
        (f"{given}.{surname}", f"{given[0]}{surname}", "info", "office", "billing", "sales")
    )
    return f"{user}@{domain}"
