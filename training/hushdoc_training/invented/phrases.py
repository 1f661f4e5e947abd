"""Phrases: short runs of a trade's words, such as titles, descriptions and remarks are made of."""

from __future__ import annotations

from functools import cache

from hushdoc_training.invented import places, values
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.word_lists import word_lists


@cache
def all_nouns() -> tuple[str, ...]:
    """Returns the nouns of all trades, sorted."""
    return tuple(sorted({noun for nouns in word_lists("trades").values() for noun in nouns}))


def trade(dice: Dice) -> str:
    """Returns the name of a trade."""
    return dice.pick(tuple(word_lists("trades")))


def noun(dice: Dice, trade: str) -> str:
    """Returns a noun, mostly of this trade."""
    if dice.chance(0.85):
        return dice.pick(word_lists("trades")[trade])
    return dice.pick(all_nouns())


def plural(word: str) -> str:
    """Returns the plural of a noun.

    Example:
        >>> plural("agency"), plural("box"), plural("tooth brush")
        ('agencies', 'boxes', 'tooth brushes')
    """
    if word.endswith(("s", "x", "ch", "sh", "z")):
        return word if word.endswith("s") and not word.endswith("ss") else word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def syllables(dice: Dice, count: int) -> str:
    """Returns a word that no dictionary has."""
    made = "".join(
        dice.word("syllables.onsets") + dice.word("syllables.nuclei") for _ in range(count)
    )
    return made + (dice.word("syllables.codas") if dice.chance(0.7) else "")


def brand(dice: Dice) -> str:
    """Returns an invented trade name."""
    return syllables(dice, dice.integer(1, 3)).capitalize()


def chemical(dice: Dice) -> str:
    """Returns a name that sounds like a chemical."""
    made = "".join(dice.word("syllables.chemical_parts") for _ in range(dice.integer(1, 2)))
    made += dice.word("syllables.chemical_ends")
    if dice.chance(0.3):
        return f"{dice.integer(1, 6)}-{made}"
    return made


def thing(dice: Dice, trade: str) -> str:
    """Returns one to four words that name a thing of this trade."""
    shape, word = dice.unit(), noun(dice, trade)
    if shape < 0.22:
        return word
    if shape < 0.45:
        return f"{dice.word('qualities.adjectives')} {word}"
    if shape < 0.68:
        return f"{noun(dice, trade)} {word}"
    if shape < 0.78:
        return f"{dice.word('qualities.adjectives')} {noun(dice, trade)} {word}"
    if shape < 0.84:
        return f"{word} of {plural(noun(dice, trade))}"
    if shape < 0.90:
        return f"{word} and {noun(dice, trade)} {noun(dice, trade)}"
    if shape < 0.95:
        return f"{brand(dice)} {word}"
    return f"{word} {noun(dice, trade)} {noun(dice, trade)}"


def product(dice: Dice, trade: str) -> str:
    """Returns the description of something that is bought and sold."""
    shape, word = dice.unit(), noun(dice, trade)
    quality = dice.word("qualities.adjectives")
    if shape < 0.2:
        made = f"{quality} {word}"
    elif shape < 0.4:
        made = f"{dice.word('qualities.materials')} {word}, {dice.word('qualities.colours')}"
    elif shape < 0.55:
        made = f"{brand(dice)} {word} {dice.letters(1)}{dice.digits(dice.integer(1, 3))}"
    elif shape < 0.7:
        made = f"{noun(dice, trade)} {word} {dice.integer(1, 90)} {dice.word('qualities.units')}"
    elif shape < 0.85:
        made = f"{word} {dice.integer(1, 40)} x {dice.integer(1, 90)}"
    else:
        made = f"{noun(dice, trade)} {word}"
    return made


def headline(dice: Dice, trade: str) -> str:
    """Returns what a letter or a project is about."""
    shape = dice.unit()
    first, second = thing(dice, trade), noun(dice, trade)
    if shape < 0.2:
        return f"{first} {dice.pick(('for', 'of', 'in', 'and', 'on'))} {plural(second)}"
    if shape < 0.35:
        return f"{dice.word('qualities.participles')} {first}"
    if shape < 0.5:
        return f"{values.period(dice)} {first} {second}"
    if shape < 0.62:
        return f"{first} - {places.town(dice)}"
    if shape < 0.74:
        return f"{brand(dice)} {first}"
    if shape < 0.84:
        return f"{second} {dice.pick(('No.', '#', 'Code'))} {values.code(dice)}"
    return f"{first} {second}"


def company(dice: Dice) -> str:
    """Returns a firm's name; providers have their own, which these do not meet."""
    surname, second = dice.word("people.surnames"), dice.word("people.surnames")
    word = dice.pick(all_nouns()).capitalize()
    end = dice.pick(
        ("Inc.", "Corp.", "Co.", "Company", "Ltd.", "LLC", "Associates", "Group", "& Sons", "Bros.")
    )
    shape = dice.unit()
    if shape < 0.25:
        return f"{surname} {word} {end}"
    if shape < 0.4:
        return f"{surname}, {second} & {dice.word('people.surnames')}"
    if shape < 0.55:
        return f"{places.town(dice)} {word} {end}"
    if shape < 0.7:
        return f"{brand(dice)} {word}s {end}"
    if shape < 0.8:
        return f"{dice.letters(dice.integer(2, 4))} {word} {end}"
    if shape < 0.9:
        return (
            f"{dice.word('places.state_names')} {word} "
            f"{dice.pick(('Institute', 'Board', 'Center'))}"
        )
    return f"University of {dice.word('places.state_names')}"


def title_case(text: str) -> str:
    """Returns the text with capital initials, its short words and codes left as they are."""
    small = {"of", "and", "for", "the", "in", "on", "to", "or", "by", "at", "a", "an"}
    words = text.split(" ")
    return " ".join(
        word if (word in small and place) or word[:1].isupper() else word[:1].upper() + word[1:]
        for place, word in enumerate(words)
    )
