"""Prose: running text, questions and remarks, from patterns with gaps for words of a trade."""

from __future__ import annotations

import re
from collections.abc import Callable

from hushdoc_training.invented import people, phrases, places, values
from hushdoc_training.invented.random_draws import Draws

_GAP = re.compile(r"\{(\w+)\}")


def _small(rng: Draws, trade: str) -> str:
    del trade
    return str(rng.integer(2, 30))


_FILLINGS: dict[str, Callable[[Draws, str], str]] = {
    "n": phrases.noun,
    "ns": lambda rng, trade: phrases.plural(phrases.noun(rng, trade)),
    "t": phrases.thing,
    "a": lambda rng, trade: rng.word("qualities.adjectives"),
    "p": lambda rng, trade: rng.word("qualities.participles"),
    "v": lambda rng, trade: rng.word("qualities.verbs"),
    "role": lambda rng, trade: rng.word("qualities.roles"),
    "dept": lambda rng, trade: rng.word("qualities.departments"),
    "person": lambda rng, trade: people.name(rng),
    "company": lambda rng, trade: phrases.company(rng),
    "town": lambda rng, trade: places.town(rng),
    "brand": lambda rng, trade: phrases.brand(rng),
    "chemical": lambda rng, trade: phrases.chemical(rng),
    "measure": lambda rng, trade: values.measure(rng),
    "date": lambda rng, trade: values.format_date(values.day(rng), rng.pick(values.DATE_STYLES)),
    "period": lambda rng, trade: values.period(rng),
    "code": lambda rng, trade: values.code(rng),
    "amount": lambda rng, trade: values.amount(rng),
    "count": lambda rng, trade: values.count(rng),
    "pct": lambda rng, trade: f"{rng.integer(1, 99)}%",
    "phone": lambda rng, trade: values.phone(rng),
    "small": _small,
}


def filled(pattern: str, rng: Draws, trade: str) -> str:
    """Returns the pattern with its gaps filled, beginning with a capital."""
    text = _GAP.sub(lambda gap: _FILLINGS[gap[1]](rng, trade), pattern)
    return text[:1].upper() + text[1:]


def sentence(rng: Draws, trade: str) -> str:
    """Returns a sentence of running text."""
    return filled(rng.word("prose.sentences"), rng, trade)


def paragraph(rng: Draws, trade: str, sentences: int) -> str:
    """Returns this many sentences."""
    return " ".join(sentence(rng, trade) for _ in range(sentences))


def question(rng: Draws, trade: str) -> str:
    """Returns a question as questionnaires put them."""
    return filled(rng.word("prose.questions"), rng, trade)


def note(rng: Draws, trade: str) -> str:
    """Returns a remark as people fill it in."""
    return filled(rng.word("prose.notes"), rng, trade)


def heading(rng: Draws, trade: str) -> str:
    """Returns the title of a section."""
    return filled(rng.word("prose.headings"), rng, trade)
