"""Prose: running text, questions and remarks, from patterns whose gaps any trade can fill."""

from __future__ import annotations

import re
from collections.abc import Callable

from hushdoc_training.invented import people, phrases, places, values
from hushdoc_training.invented.random_draws import Dice

_GAP = re.compile(r"\{(\w+)\}")


def _small(dice: Dice, trade: str) -> str:
    del trade
    return str(dice.integer(2, 30))


_FILLINGS: dict[str, Callable[[Dice, str], str]] = {
    "n": phrases.noun,
    "ns": lambda dice, trade: phrases.plural(phrases.noun(dice, trade)),
    "t": phrases.thing,
    "a": lambda dice, trade: dice.word("qualities.adjectives"),
    "p": lambda dice, trade: dice.word("qualities.participles"),
    "v": lambda dice, trade: dice.word("qualities.verbs"),
    "role": lambda dice, trade: dice.word("qualities.roles"),
    "dept": lambda dice, trade: dice.word("qualities.departments"),
    "person": lambda dice, trade: people.name(dice),
    "company": lambda dice, trade: phrases.company(dice),
    "town": lambda dice, trade: places.town(dice),
    "brand": lambda dice, trade: phrases.brand(dice),
    "chemical": lambda dice, trade: phrases.chemical(dice),
    "measure": lambda dice, trade: values.measure(dice),
    "date": lambda dice, trade: values.spell_date(values.day(dice), dice.pick(values.DATE_STYLES)),
    "period": lambda dice, trade: values.period(dice),
    "code": lambda dice, trade: values.code(dice),
    "amount": lambda dice, trade: values.amount(dice),
    "count": lambda dice, trade: values.count(dice),
    "pct": lambda dice, trade: f"{dice.integer(1, 99)}%",
    "phone": lambda dice, trade: values.phone(dice),
    "small": _small,
}


def filled(pattern: str, dice: Dice, trade: str) -> str:
    """Returns the pattern with its gaps filled, beginning with a capital."""
    text = _GAP.sub(lambda gap: _FILLINGS[gap[1]](dice, trade), pattern)
    return text[:1].upper() + text[1:]


def sentence(dice: Dice, trade: str) -> str:
    """Returns a sentence of running text."""
    return filled(dice.word("prose.sentences"), dice, trade)


def paragraph(dice: Dice, trade: str, sentences: int) -> str:
    """Returns this many sentences."""
    return " ".join(sentence(dice, trade) for _ in range(sentences))


def question(dice: Dice, trade: str) -> str:
    """Returns a question as questionnaires put them."""
    return filled(dice.word("prose.questions"), dice, trade)


def note(dice: Dice, trade: str) -> str:
    """Returns a remark as people fill it in."""
    return filled(dice.word("prose.notes"), dice, trade)


def heading(dice: Dice, trade: str) -> str:
    """Returns the title of a section."""
    return filled(dice.word("prose.headings"), dice, trade)
