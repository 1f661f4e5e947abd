"""Phrases: short runs of words of a trade, as in titles, descriptions and remarks."""

from __future__ import annotations

from functools import cache

from hushdoc_training.invented import places, values
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.word_lists import word_lists


@cache
def all_nouns() -> tuple[str, ...]:
    """Returns the nouns of all trades, sorted."""
    return tuple(sorted({noun for nouns in word_lists("trades").values() for noun in nouns}))


def trade(rng: Draws) -> str:
    """Returns the name of a trade."""
    return rng.pick(tuple(word_lists("trades")))


def noun(rng: Draws, trade: str) -> str:
    """Returns a noun, mostly of this trade."""
    if rng.flip(0.85):
        return rng.pick(word_lists("trades")[trade])
    return rng.pick(all_nouns())


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


def syllables(rng: Draws, count: int) -> str:
    """Returns a word that no dictionary has."""
    made = "".join(
        rng.word("syllables.onsets") + rng.word("syllables.nuclei") for _ in range(count)
    )
    return made + (rng.word("syllables.codas") if rng.flip(0.7) else "")


def brand(rng: Draws) -> str:
    """Returns an invented trade name."""
    return syllables(rng, rng.integer(1, 3)).capitalize()


def chemical(rng: Draws) -> str:
    """Returns a name that sounds like a chemical."""
    made = "".join(rng.word("syllables.chemical_parts") for _ in range(rng.integer(1, 2)))
    made += rng.word("syllables.chemical_ends")
    if rng.flip(0.3):
        return f"{rng.integer(1, 6)}-{made}"
    return made


def thing(rng: Draws, trade: str) -> str:
    """Returns one to four words that name a thing of this trade."""
    shape, word = rng.unit(), noun(rng, trade)
    if shape < 0.22:
        return word
    if shape < 0.45:
        return f"{rng.word('qualities.adjectives')} {word}"
    if shape < 0.68:
        return f"{noun(rng, trade)} {word}"
    if shape < 0.78:
        return f"{rng.word('qualities.adjectives')} {noun(rng, trade)} {word}"
    if shape < 0.84:
        return f"{word} of {plural(noun(rng, trade))}"
    if shape < 0.90:
        return f"{word} and {noun(rng, trade)} {noun(rng, trade)}"
    if shape < 0.95:
        return f"{brand(rng)} {word}"
    return f"{word} {noun(rng, trade)} {noun(rng, trade)}"


def product(rng: Draws, trade: str) -> str:
    """Returns the description of something that is bought and sold."""
    shape, word = rng.unit(), noun(rng, trade)
    quality = rng.word("qualities.adjectives")
    if shape < 0.2:
        made = f"{quality} {word}"
    elif shape < 0.4:
        made = f"{rng.word('qualities.materials')} {word}, {rng.word('qualities.colours')}"
    elif shape < 0.55:
        made = f"{brand(rng)} {word} {rng.letters(1)}{rng.digits(rng.integer(1, 3))}"
    elif shape < 0.7:
        made = f"{noun(rng, trade)} {word} {rng.integer(1, 90)} {rng.word('qualities.units')}"
    elif shape < 0.85:
        made = f"{word} {rng.integer(1, 40)} x {rng.integer(1, 90)}"
    else:
        made = f"{noun(rng, trade)} {word}"
    return made


def headline(rng: Draws, trade: str) -> str:
    """Returns what a letter or a project is about."""
    shape = rng.unit()
    first, second = thing(rng, trade), noun(rng, trade)
    if shape < 0.2:
        return f"{first} {rng.pick(('for', 'of', 'in', 'and', 'on'))} {plural(second)}"
    if shape < 0.35:
        return f"{rng.word('qualities.participles')} {first}"
    if shape < 0.5:
        return f"{values.period(rng)} {first} {second}"
    if shape < 0.62:
        return f"{first} - {places.town(rng)}"
    if shape < 0.74:
        return f"{brand(rng)} {first}"
    if shape < 0.84:
        return f"{second} {rng.pick(('No.', '#', 'Code'))} {values.code(rng)}"
    return f"{first} {second}"


def company(rng: Draws) -> str:
    """Returns a firm's name; providers have their own, which these do not meet."""
    surname, second = rng.word("people.surnames"), rng.word("people.surnames")
    word = rng.pick(all_nouns()).capitalize()
    end = rng.pick(
        ("Inc.", "Corp.", "Co.", "Company", "Ltd.", "LLC", "Associates", "Group", "& Sons", "Bros.")
    )
    shape = rng.unit()
    if shape < 0.25:
        return f"{surname} {word} {end}"
    if shape < 0.4:
        return f"{surname}, {second} & {rng.word('people.surnames')}"
    if shape < 0.55:
        return f"{places.town(rng)} {word} {end}"
    if shape < 0.7:
        return f"{brand(rng)} {word}s {end}"
    if shape < 0.8:
        return f"{rng.letters(rng.integer(2, 4))} {word} {end}"
    if shape < 0.9:
        return (
            f"{rng.word('places.state_names')} {word} {rng.pick(('Institute', 'Board', 'Center'))}"
        )
    return f"University of {rng.word('places.state_names')}"


def title_case(text: str) -> str:
    """Returns the text with capital initials, its short words and codes left as they are."""
    small = {"of", "and", "for", "the", "in", "on", "to", "or", "by", "at", "a", "an"}
    words = text.split(" ")
    return " ".join(
        word if (word in small and place) or word[:1].isupper() else word[:1].upper() + word[1:]
        for place, word in enumerate(words)
    )
