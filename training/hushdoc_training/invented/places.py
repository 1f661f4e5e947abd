"""Places: streets, towns and postal addresses, most of them on no map."""

from __future__ import annotations

from functools import cache

from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.word_lists import word_list


@cache
def town_names() -> tuple[str, ...]:
    """Returns two hundred towns, all different, none of them a surname."""
    heads, tails = word_list("places.town_heads"), word_list("places.town_tails")
    return tuple(heads[place % 79] + tails[place // 79 + place % 7 * 3] for place in range(200))


def town(dice: Dice) -> str:
    """Returns the name of a town."""
    parts = ("places.town_prefixes", "places.town_heads", "places.town_tails")
    return "".join(dice.word(part) for part in parts)


def street(dice: Dice) -> str:
    """Returns a street and a house number."""
    shape = dice.unit()
    if shape < 0.06:
        return f"P.O. Box {dice.integer(10, 9999)}"
    house = dice.integer(1, 60) if shape < 0.4 else dice.integer(100, 9800)
    named = f"{house} {dice.word('places.streets')} {dice.word('places.street_types')}"
    if shape > 0.93:
        part = dice.pick(("Suite", "Unit", "Room", "Floor", "Bldg."))
        return f"{named}, {part} {dice.integer(1, 400)}"
    return named


def town_line(dice: Dice, country: str = "US") -> str:
    """Returns town, region and postal code as that country writes them."""
    if country == "US":
        return f"{town(dice)}, {dice.word('places.state_codes')} {dice.integer(10000, 99899)}"
    if country == "GB":
        code = f"{dice.letters(dice.integer(1, 2))}{dice.integer(1, 29)} {dice.integer(1, 9)}"
        return f"{town(dice)} {code}{dice.letters(2)}"
    if country == "CA":
        return f"{town(dice)}, {dice.pick(('ON', 'BC', 'AB', 'NS', 'MB'))} {_canadian(dice)}"
    return f"{dice.integer(10000, 98999)} {town(dice)}"


def address(dice: Dice, country: str = "US") -> str:
    """Returns a postal address of two lines."""
    return f"{street(dice)}\n{town_line(dice, country)}"


def _canadian(dice: Dice) -> str:
    first = f"{dice.letters(1)}{dice.integer(1, 9)}{dice.letters(1)}"
    return f"{first} {dice.integer(1, 9)}{dice.letters(1)}{dice.integer(1, 9)}"
