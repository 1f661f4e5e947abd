"""Names of people, invented from common given names and surnames."""

from __future__ import annotations

from hushdoc_training.invented.random_draws import Dice


def name(dice: Dice) -> str:
    """Returns a person's full name in one of the usual spellings."""
    given, surname = dice.word("people.given_names"), dice.word("people.surnames")
    shape = dice.unit()
    if shape < 0.40:
        return f"{given} {surname}"
    if shape < 0.58:
        return f"{given} {dice.letters(1)}. {surname}"
    if shape < 0.74:
        return f"{given[0]}. {dice.letters(1)}. {surname}"
    if shape < 0.82:
        return f"{given[0]}. {surname}"
    if shape < 0.88:
        return f"{surname}, {given} {dice.letters(1)}."
    if shape < 0.94:
        return f"{dice.word('people.titles')} {given} {surname}"
    return f"{given} {surname}, {dice.word('people.degrees')}"


def initials(dice: Dice) -> str:
    """Returns a person's initials, as typists note them."""
    made = dice.letters(dice.integer(2, 3))
    return dice.pick((made, made.lower(), ".".join(made) + "."))
