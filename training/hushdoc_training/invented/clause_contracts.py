"""Invented contracts: clauses among other sentences, from words/contracts.toml alone.

Contract: a contract is a pure function of its seed and index. The sentences are public and were
written for this package, so a table may be trained on them without privacy.
"""

from __future__ import annotations

import random

from hushdoc_training.invented.word_lists import word_list, word_lists
from hushdoc_training.labelled_texts import Contract

CLAUSES = ("Governing Law", "License Grant", "Audit Rights", "Renewal Term")
"""The types of clauses that contracts have; words/contracts.toml holds what they may say."""


def contracts(count: int, *, seed: int = 0) -> list[Contract]:
    """Returns contracts of some dozen sentences, two of each company.

    Example:
        >>> first, second = contracts(2)
        >>> first.group == second.group, first.text == second.text
        (True, False)
    """
    return [_contract(seed, index) for index in range(count)]


def names(count: int, *, seed: int = 0) -> list[str]:
    """Returns different words, at most a few thousand, that look like names and mean nothing."""
    rng = random.Random(f"names {seed}")
    found: dict[str, None] = {}
    while len(found) < count:
        found[_word(rng)] = None
    return list(found)


def _contract(seed: int, index: int) -> Contract:
    company = random.Random(f"company {seed} {index // 2}")
    rng = random.Random(f"contract {seed} {index}")
    filled = {
        "name": f"{_word(company)} Inc.",
        "other": f"{_word(rng)} Ltd",
        "state": company.choice(word_list("contracts.states")),
    }
    lines: list[tuple[str | None, str]] = [
        (None, rng.choice(word_list("contracts.other_sentences")))
        for _ in range(rng.randrange(12, 24))
    ]
    for label, forms in word_lists("contracts.clauses").items():
        if rng.random() < 0.8:
            lines.insert(rng.randrange(len(lines) + 1), (label, rng.choice(forms)))
    text = f"AGREEMENT\n\nbetween {filled['name']} and {filled['other']}\n\n"
    spans = []
    for number, (clause, form) in enumerate(lines, start=1):
        text += f"{number}. "
        line = form.format(
            **filled, thing=rng.choice(word_list("contracts.things")), days=rng.randrange(5, 95)
        )
        if clause is not None:
            spans.append((clause, len(text), len(text) + len(line)))
        text += line + "\n\n"
    name, group = f"invented-{seed}-{index}", f"company-{seed}-{index // 2}"
    return Contract(name=name, group=group, text=text, spans=tuple(spans))


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(word_list("contracts.syllables"), k=3)).capitalize()
