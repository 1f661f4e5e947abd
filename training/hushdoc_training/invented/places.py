"""Places: streets, towns and postal addresses, most of them on no map."""

from __future__ import annotations

from functools import cache

from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.word_lists import word_list


@cache
def town_names() -> tuple[str, ...]:
    """Returns two hundred towns, all different, none of them a surname."""
    heads, tails = word_list("places.town_heads"), word_list("places.town_tails")
    return tuple(heads[place % 79] + tails[place // 79 + place % 7 * 3] for place in range(200))


def town(rng: Draws) -> str:
    """Returns the name of a town."""
    parts = ("places.town_prefixes", "places.town_heads", "places.town_tails")
    return "".join(rng.word(part) for part in parts)


def street(rng: Draws) -> str:
    """Returns a street and a house number."""
    shape = rng.unit()
    if shape < 0.06:
        return f"P.O. Box {rng.integer(10, 9999)}"
    house = rng.integer(1, 60) if shape < 0.4 else rng.integer(100, 9800)
    named = f"{house} {rng.word('places.streets')} {rng.word('places.street_types')}"
    if shape > 0.93:
        part = rng.pick(("Suite", "Unit", "Room", "Floor", "Bldg."))
        return f"{named}, {part} {rng.integer(1, 400)}"
    return named


def town_line(rng: Draws, country: str = "US") -> str:
    """Returns town, region and postal code as that country writes them."""
    if country == "US":
        return f"{town(rng)}, {rng.word('places.state_codes')} {rng.integer(10000, 99899)}"
    if country == "GB":
        code = f"{rng.letters(rng.integer(1, 2))}{rng.integer(1, 29)} {rng.integer(1, 9)}"
        return f"{town(rng)} {code}{rng.letters(2)}"
    if country == "CA":
        return f"{town(rng)}, {rng.pick(('ON', 'BC', 'AB', 'NS', 'MB'))} {_canadian(rng)}"
    return f"{rng.integer(10000, 98999)} {town(rng)}"


def address(rng: Draws, country: str = "US") -> str:
    """Returns a postal address of two lines."""
    return f"{street(rng)}\n{town_line(rng, country)}"


def _canadian(rng: Draws) -> str:
    first = f"{rng.letters(1)}{rng.integer(1, 9)}{rng.letters(1)}"
    return f"{first} {rng.integer(1, 9)}{rng.letters(1)}{rng.integer(1, 9)}"
