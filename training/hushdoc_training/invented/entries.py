"""Entries: what a form asks for, as a label and the kind of value it wants."""

from __future__ import annotations

from typing import NamedTuple

from hushdoc_training.invented import (
    people,
    phrases,
    places,
    prose,
    values,
)
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.word_lists import word_lists


class Entry(NamedTuple):
    """A label without its colon, and the kind of value that belongs there."""

    label: str
    kind: str


_KINDS = (
    ("person", 15.0), ("company", 5), ("date", 14), ("code", 17), ("amount", 9), ("count", 8),
    ("percent", 3), ("measure", 5), ("phone", 4), ("email", 0.6), ("address", 4), ("place", 5),
    ("role", 3), ("department", 4), ("phrase", 19), ("period", 4), ("yesno", 2), ("time", 1.5),
    ("initials", 1),
)  # fmt: skip


def entry(dice: Dice, trade: str, kind: str | None = None) -> Entry:
    """Returns something a form of this trade may ask for, of the wanted kind if one is given."""
    kind = kind or dice.weighted(_KINDS)
    made = word_lists("form_prompts.patterns").get(kind)
    if made is None or dice.chance(0.45):
        return Entry(dice.pick(word_lists("form_prompts.plain")[kind]), kind)
    return Entry(prose.filled(dice.pick(made), dice, trade), kind)


def short_value(
    dice: Dice, trade: str, kind: str, date_style: str, money: values.Money | None = None
) -> str:
    """Returns what somebody may have filled in: one line, except for addresses."""
    match kind:
        case "person":
            return people.name(dice)
        case "company":
            return phrases.company(dice)
        case "date":
            style = dice.pick(values.DATE_STYLES) if dice.chance(0.12) else date_style
            return values.spell_date(values.day(dice, 1960, 2012), style)
        case "time":
            return values.clock(dice)
        case "code":
            return values.code(dice)
        case "amount":
            return values.amount(dice, money)
        case "count":
            return values.count(dice)
        case "pages":
            return dice.pick(
                (str(dice.integer(1, 30)), f"{dice.integer(1, 9):02d}", "(including cover)")
            )
        case "percent":
            return values.percent(dice)
        case "measure":
            return values.measure(dice) if dice.chance(0.6) else values.decimal(dice)
        case "phone":
            return values.phone(dice)
        case "email":
            return values.email(dice, f"{phrases.syllables(dice, 2)}.com")
        case "address":
            return places.address(dice, dice.pick(("US", "US", "US", "GB", "CA", "DE")))
        case "place":
            return _place(dice)
        case "role":
            return dice.word("qualities.roles")
        case "department":
            return dice.word("qualities.departments")
        case "period":
            return values.period(dice)
        case "yesno":
            return dice.pick(("Yes", "No", "X", "N/A", "Y", "N", "YES", "NO", "no", "yes"))
        case "initials":
            return people.initials(dice)
        case "text":
            return prose.note(dice, trade)
    return _phrase(dice, trade)


def _place(dice: Dice) -> str:
    return dice.pick(
        (
            places.town(dice),
            f"{places.town(dice)}, {dice.word('places.state_codes')}",
            dice.word("places.state_names"),
            dice.word("places.countries"),
        )
    )


def _phrase(dice: Dice, trade: str) -> str:
    shape = dice.unit()
    if shape < 0.4:
        text = phrases.thing(dice, trade)
    elif shape < 0.55:
        text = phrases.headline(dice, trade)
    elif shape < 0.68:
        text = phrases.product(dice, trade)
    elif shape < 0.8:
        text = f"{phrases.brand(dice)} {phrases.noun(dice, trade)}"
    elif shape < 0.86:
        text = phrases.chemical(dice)
    else:
        text = prose.note(dice, trade)
    return text[:1].upper() + text[1:]
