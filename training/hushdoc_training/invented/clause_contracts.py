"""Invented contracts: clauses among other sentences, from the lists in this module alone.

Contract: a contract is a pure function of its seed and index. What stands here is public and was
written for this package, so a table may be made from it without privacy.
"""

from __future__ import annotations

import random

from hushdoc_training.labelled_texts import Contract

NAME = "invented contracts"

_STATES = [
    "Delaware",
    "Nevada",
    "Ohio",
    "Texas",
    "Oregon",
    "Maine",
    "Utah",
    "Iowa",
    "Kansas",
    "Idaho",
    "Vermont",
    "Georgia",
]
_THINGS = [
    "software",
    "drawings",
    "vehicles",
    "premises",
    "databases",
    "samples",
    "machines",
    "manuals",
    "designs",
]
_SYLLABLES = [
    "bar",
    "cor",
    "den",
    "fal",
    "gin",
    "hol",
    "jar",
    "kel",
    "lum",
    "mor",
    "nev",
    "pol",
    "quin",
    "ros",
    "tam",
    "ul",
    "ver",
    "win",
]

CLAUSES: dict[str, tuple[str, ...]] = {
    "Governing Law": (
        "This Agreement is governed by the laws of the State of {state}, whatever its rules on "
        "conflicts of laws say.",
        "The laws of {state} shall govern this Agreement, and {name} submits to its courts.",
        "Any dispute is decided under the law of {state} by the courts that sit there.",
    ),
    "License Grant": (
        "{name} grants to {other} a non-exclusive licence to use the {thing} during the Term.",
        "Subject to payment, {other} receives from {name} a limited right to use the {thing}.",
        "{other} may copy and use the {thing} under a licence that can't be transferred.",
    ),
    "Audit Rights": (
        "{other} may inspect the books and records of {name} once a year upon {days} days of "
        "notice.",
        "{name} shall keep records for {days} months, and {other} may audit them at its own cost.",
        "An auditor named by {other} may examine the accounts of {name} during business hours.",
    ),
    "Renewal Term": (
        "After the first term this Agreement renews for {days} months unless a party objects.",
        "The Term is extended by one year each time unless {name} gives {days} days of notice.",
    ),
}
"""The clause types, and what they may say."""

_OTHERS = (
    "{name} shall deliver the {thing} to {other} within {days} days.",
    "Payments are due {days} days after the invoice of {name} was received.",
    "Notices to {other} shall be in writing and sent to its office in {state}.",
    "Neither party may disclose what the other calls confidential about the {thing}.",
    "Headings are for convenience and do not limit this Agreement.",
    "{name} acts as an independent contractor and not as an agent of {other}.",
    "{other} shall insure the {thing} against loss for a term of {days} months.",
    "Each right under the laws stays in force after the Term has ended.",
    "This Agreement may be changed only in writing signed by {name} and {other}.",
    "The {thing} remain the property of {name} until they are paid for.",
    "Costs of transport from {state} are borne by {other}.",
    "If a court finds a provision void, the others stay as they are.",
    "{name} warrants that the {thing} are free of defects for {days} days.",
    "Both parties keep records of what was delivered.",
)


def contracts(count: int, *, seed: int = 0) -> list[Contract]:
    """Returns contracts of some dozen sentences, two of each company.

    Args:
        count: How many.
        seed: Which.

    Example:
        >>> first, second = contracts(2)
        >>> first.group == second.group, first.text == second.text
        (True, False)
    """
    return [_contract(seed, index) for index in range(count)]


def names(count: int, *, seed: int = 0) -> list[str]:
    """Returns different words that look like names and mean nothing.

    Args:
        count: How many, at most a few thousand.
        seed: Which.
    """
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
        "state": company.choice(_STATES),
    }
    lines: list[tuple[str | None, str]] = [
        (None, rng.choice(_OTHERS)) for _ in range(rng.randrange(12, 24))
    ]
    for label, forms in CLAUSES.items():
        if rng.random() < 0.8:
            lines.insert(rng.randrange(len(lines) + 1), (label, rng.choice(forms)))
    text = f"AGREEMENT\n\nbetween {filled['name']} and {filled['other']}\n\n"
    spans = []
    for number, (clause, form) in enumerate(lines, start=1):
        text += f"{number}. "
        line = form.format(**filled, thing=rng.choice(_THINGS), days=rng.randrange(5, 95))
        if clause is not None:
            spans.append((clause, len(text), len(text) + len(line)))
        text += line + "\n\n"
    name, group = f"invented-{seed}-{index}", f"company-{seed}-{index // 2}"
    return Contract(name=name, group=group, text=text, spans=tuple(spans))


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=3)).capitalize()
