"""Goods: what shops, restaurants and tradesmen sell, as their papers call it."""

from __future__ import annotations

from hushdoc_training.invented import phrases
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.word_lists import word_list


def sold(dice: Dice, trade: str) -> str:
    """Returns what a line of an invoice may be for."""
    manner = dice.unit()
    if manner < 0.3:
        text = dice.word("goods.wares")
        if dice.chance(0.5):
            qualities = word_list("qualities.colours") + word_list("qualities.materials")
            text = f"{text}, {dice.pick(qualities)}"
        if dice.chance(0.3):
            text = f"{text} {dice.letters(dice.integer(1, 2))}{dice.digits(dice.integer(1, 4))}"
    elif manner < 0.6:
        text = dice.word("goods.services")
        if dice.chance(0.5):
            text = f"{phrases.noun(dice, trade)} {text}"
        if dice.chance(0.45):
            text = f"{text} {dice.word('goods.service_terms')}"
    else:
        text = phrases.product(dice, trade)
    return text[:1].upper() + text[1:]


def bought(dice: Dice, dishes: bool) -> str:
    """Returns what a line of a receipt may be for."""
    if dishes:
        return dice.word("goods.dishes")
    text = dice.word("goods.groceries" if dice.chance(0.65) else "goods.wares")
    manner = dice.unit()
    if manner < 0.25:
        return f"{text} {dice.word('goods.sizes')}"
    if manner < 0.45:
        return f"{phrases.brand(dice)} {text}"
    if manner < 0.55:
        return f"{dice.pick(('organic', 'fresh', 'large', 'small', 'premium', 'light'))} {text}"
    return text
