"""Goods: what shops, restaurants and tradesmen sell, as their papers call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from hushdoc_training.invented import phrases
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.word_lists import word_list

_WORDS_A_LINE = 3


def called(descriptions: Iterable[str], words: Sequence[str]) -> list[str]:
    """Returns what lines are for, the first ones called by given words as far as these go.

    Example:
        >>> called(["Tea", "Rice"], ["kopi"])
        ['kopi', 'Rice']
    """
    starts = range(0, len(words), _WORDS_A_LINE)
    lines = [" ".join(words[start : start + _WORDS_A_LINE]) for start in starts]
    return [line or text for text, line in zip_longest(descriptions, lines) if text is not None]


def sold(rng: Draws, trade: str) -> str:
    """Returns what a line of an invoice may be for."""
    manner = rng.unit()
    if manner < 0.3:
        text = rng.word("goods.wares")
        if rng.flip(0.5):
            qualities = word_list("qualities.colours") + word_list("qualities.materials")
            text = f"{text}, {rng.pick(qualities)}"
        if rng.flip(0.3):
            text = f"{text} {rng.letters(rng.integer(1, 2))}{rng.digits(rng.integer(1, 4))}"
    elif manner < 0.6:
        text = rng.word("goods.services")
        if rng.flip(0.5):
            text = f"{phrases.noun(rng, trade)} {text}"
        if rng.flip(0.45):
            text = f"{text} {rng.word('goods.service_terms')}"
    else:
        text = phrases.product(rng, trade)
    return text[:1].upper() + text[1:]


def bought(rng: Draws, dishes: bool) -> str:
    """Returns what a line of a receipt may be for."""
    if dishes:
        return rng.word("goods.dishes")
    text = rng.word("goods.groceries" if rng.flip(0.65) else "goods.wares")
    manner = rng.unit()
    if manner < 0.25:
        return f"{text} {rng.word('goods.sizes')}"
    if manner < 0.45:
        return f"{phrases.brand(rng)} {text}"
    if manner < 0.55:
        return f"{rng.pick(('organic', 'fresh', 'large', 'small', 'premium', 'light'))} {text}"
    return text
