"""Contracts that nobody wrote, for looks at the clause benchmark without data."""

from __future__ import annotations

import random

from hushdoc_training.labelled_texts import Contract

_STATES = ("Delaware", "Nevada", "Ohio", "Texas", "Oregon", "Maine", "Utah", "Iowa", "Kansas")
_SYLLABLES = ("bar", "cor", "den", "fal", "gin", "hol", "jar", "kel", "lum", "mor", "nev", "pol")
_CLAUSES = {
    "Governing Law": (
        "This Agreement is governed by the laws of the State of {state}, whatever its rules on "
        "conflicts say.",
        "The laws of {state} shall govern and {name} submits to its courts.",
    ),
    "License Grant": (
        "{name} grants to {other} a non-exclusive licence to use the {thing} for the Term.",
        "Subject to payment, {other} receives from {name} a limited right to use the {thing}.",
    ),
    "Audit Rights": (
        "{other} may inspect the books of {name} once a year upon {days} days of notice.",
        "{name} shall keep records, and {other} may audit them at its own expense.",
    ),
}
_OTHERS = (
    "{name} shall deliver the {thing} to {other} within {days} days.",
    "Payments are due {days} days after the invoice of {name}.",
    "Notices to {other} shall be in writing and sent to its office in {state}.",
    "Neither party may disclose what the other calls confidential about the {thing}.",
    "Headings are for convenience and do not limit this Agreement.",
    "The parties agree that {name} acts as an independent contractor.",
    "{other} shall insure the {thing} against loss for {days} days.",
    "Each right under the laws stays in force after the Term.",
)


def contracts(count: int, *, seed: int = 0) -> list[Contract]:
    """Returns contracts of a few dozen sentences, each of a company of its own."""
    return [_contract(index, random.Random(f"{seed} {index}")) for index in range(count)]


def _contract(index: int, chance: random.Random) -> Contract:
    words = {
        "name": _word(chance).capitalize() + " Inc",
        "other": _word(chance).capitalize() + " Ltd",
        "thing": _word(chance),
        "state": chance.choice(_STATES),
        "days": chance.randrange(5, 95),
    }
    lines = [(None, chance.choice(_OTHERS)) for _ in range(chance.randrange(15, 30))]
    for label, forms in _CLAUSES.items():
        if chance.random() < 0.8:
            lines.insert(chance.randrange(len(lines)), (label, chance.choice(forms)))
    text, spans = "", []
    for label, form in lines:
        line = form.format(**{**words, "thing": chance.choice([words["thing"], _word(chance)])})
        if label:
            spans.append((label, len(text), len(text) + len(line)))
        text += line + "\n\n"
    return Contract(name=f"c{index}", group=f"g{index}", text=text, spans=tuple(spans))


def _word(chance: random.Random) -> str:
    return "".join(chance.choices(_SYLLABLES, k=3))
