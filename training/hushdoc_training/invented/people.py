"""Names of people, invented from common given names and surnames."""

from __future__ import annotations

from hushdoc_training.invented.random_draws import Draws


def name(rng: Draws) -> str:
    """Returns a person's full name in one of the usual spellings."""
    given, surname = rng.word("people.given_names"), rng.word("people.surnames")
    shape = rng.unit()
    if shape < 0.40:
        return f"{given} {surname}"
    if shape < 0.58:
        return f"{given} {rng.letters(1)}. {surname}"
    if shape < 0.74:
        return f"{given[0]}. {rng.letters(1)}. {surname}"
    if shape < 0.82:
        return f"{given[0]}. {surname}"
    if shape < 0.88:
        return f"{surname}, {given} {rng.letters(1)}."
    if shape < 0.94:
        return f"{rng.word('people.titles')} {given} {surname}"
    return f"{given} {surname}, {rng.word('people.degrees')}"


def initials(rng: Draws) -> str:
    """Returns a person's initials, as typists note them."""
    made = rng.letters(rng.integer(2, 3))
    return rng.pick((made, made.lower(), ".".join(made) + "."))
