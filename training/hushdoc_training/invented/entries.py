"""Entries: what a form asks for, as a label and the type of value that belongs there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hushdoc_training.invented import people, phrases, places, prose, values
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.word_lists import word_lists


class Entry(NamedTuple):
    """A label without its colon, and the type of value that belongs there."""

    label: str
    value_type: str


_VALUE_TYPES = (
    ("person", 15.0), ("company", 5), ("date", 14), ("code", 17), ("amount", 9), ("count", 8),
    ("percent", 3), ("measure", 5), ("phone", 4), ("email", 0.6), ("address", 4), ("place", 5),
    ("role", 3), ("department", 4), ("phrase", 19), ("period", 4), ("yesno", 2), ("time", 1.5),
    ("initials", 1),
)  # fmt: skip


def entry(rng: Draws, trade: str, value_type: str | None = None) -> Entry:
    """Returns something that a form of this trade may ask for, of the type if one is given."""
    value_type = value_type or rng.weighted(_VALUE_TYPES)
    made = word_lists("form_prompts.patterns").get(value_type)
    if made is None or rng.flip(0.45):
        return Entry(rng.pick(word_lists("form_prompts.plain")[value_type]), value_type)
    return Entry(prose.filled(rng.pick(made), rng, trade), value_type)


def short_value(
    rng: Draws, trade: str, value_type: str, date_style: str, money: values.Money | None = None
) -> str:
    """Returns what somebody may have filled in: one line, except for addresses."""
    if value_type == "date":
        style = rng.pick(values.DATE_STYLES) if rng.flip(0.12) else date_style
        return values.format_date(values.day(rng, 1960, 2012), style)
    if value_type == "amount":
        return values.amount(rng, money)
    if value_type == "text":
        return prose.note(rng, trade)
    return _SHORT_VALUES[value_type](rng) if value_type in _SHORT_VALUES else _phrase(rng, trade)


def _pages(rng: Draws) -> str:
    return rng.pick((str(rng.integer(1, 30)), f"{rng.integer(1, 9):02d}", "(including cover)"))


def _place(rng: Draws) -> str:
    return rng.pick(
        (
            places.town(rng),
            f"{places.town(rng)}, {rng.word('places.state_codes')}",
            rng.word("places.state_names"),
            rng.word("places.countries"),
        )
    )


def _phrase(rng: Draws, trade: str) -> str:
    shape = rng.unit()
    if shape < 0.4:
        text = phrases.thing(rng, trade)
    elif shape < 0.55:
        text = phrases.headline(rng, trade)
    elif shape < 0.68:
        text = phrases.product(rng, trade)
    elif shape < 0.8:
        text = f"{phrases.brand(rng)} {phrases.noun(rng, trade)}"
    elif shape < 0.86:
        text = phrases.chemical(rng)
    else:
        text = prose.note(rng, trade)
    return text[:1].upper() + text[1:]


_SHORT_VALUES: dict[str, Callable[[Draws], str]] = {
    "person": people.name,
    "company": phrases.company,
    "time": values.clock,
    "code": values.code,
    "count": values.count,
    "pages": _pages,
    "percent": values.percent,
    "measure": lambda rng: values.measure(rng) if rng.flip(0.6) else values.decimal(rng),
    "phone": values.phone,
    "email": lambda rng: values.email(rng, f"{phrases.syllables(rng, 2)}.com"),
    "address": lambda rng: places.address(rng, rng.pick(("US", "US", "US", "GB", "CA", "DE"))),
    "place": _place,
    "role": lambda rng: rng.word("qualities.roles"),
    "department": lambda rng: rng.word("qualities.departments"),
    "period": values.period,
    "yesno": lambda rng: rng.word("form_prompts.yes_or_no"),
    "initials": people.initials,
}
