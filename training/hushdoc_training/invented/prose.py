"""Prose: running text, questions and remarks, from patterns whose gaps any trade can fill."""

from __future__ import annotations

import re
from collections.abc import Callable

from hushdoc_training.invented import people, phrases, places, qualities, values, vocabulary
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.wordlist import lines

_SENTENCES = lines(
    """
    Please {v} the {t} and {v} it to the {dept} department before {date}.
    Please {v} all {ns} that were {p} during {period}.
    The {t} was {p} by {person} on {date}.
    The {a} {n} has been {p} and the {ns} are being {p}.
    We have {p} your {n} of {date} and will {v} the {ns} as soon as possible.
    Attached is the {t} which we {p} last week.
    Attached please find {count} copies of the {t}.
    Enclosed is a copy of the {n} {p} by {company}.
    This will confirm our conversation of {date} regarding the {t}.
    If you have any questions, please call me at {phone}.
    If there are any questions about the {n}, contact {person}, extension {small}.
    Results indicate that the {n} is {a} and that {pct} of the {ns} were {p}.
    The {ns} should be {p} in a {a} {n} and {p} with {n}.
    A total of {count} {ns} were {p} in {town}; {count} of them were {p}.
    {company} has {p} to {v} the {t} at no {a} cost.
    It is {p} that the {n} be {p} no later than {date}.
    The purpose of this {n} is to {v} the {a} {ns}.
    The objective of the study is to {v} the {n} of {ns} in {a} {ns}.
    No {n} was {p} during this period.
    All {ns} must be {p} and {p} before any {n} is {p}.
    Each {n} will be {p} with {small} {ns} and a {a} {n}.
    Only {ns} with a {a} {n} can be {p}.
    Do not {v} the {n} until the {ns} have been {p}.
    The {n} for {period} is {amount}, or {pct} above the {a} {n}.
    The {a} budget for this {n} is {amount}.
    Total cost will not exceed {amount} without {a} {n} of the {role}.
    Payment will be made within {small} days after the {n} is {p}.
    This {n} is intended only for the person to whom it is addressed.
    Any {a} use or {n} of this {n} is prohibited.
    I hereby certify that the {ns} above are true and complete.
    I understand that {a} {ns} may be {p} without notice.
    The undersigned agrees to {v} the {n} in accordance with the {a} {ns}.
    In the event of {n}, the {role} shall {v} all {ns}.
    Your {n} has been {p} to {dept} for {a} {n}.
    We would appreciate your {ns} on the {t}.
    Thank you for your {n} and for the {ns} you {p}.
    Let me know if you want to {v} the {t}.
    {person} will {v} the {n} and {v} a report by {date}.
    The next {n} is {p} for {date} in {town}.
    Sales of {brand} {ns} in {town} were {a} compared with {period}.
    Competitors {p} a {a} {n} in {count} {ns}.
    Most {ns} were {a}; {small} {ns} were not {p}.
    Both {ns} and {ns} were {p} at {small} {ns}.
    See {n} {code} for {a} {ns}.
    Refer to {n} {code} dated {date}.
    Copies of the {n} must be {p} for {small} years.
    Use {a} {ns} only and {v} them in {n}.
    Samples were {p} at room temperature for {small} hours and {p} again.
    {chemical} was not {p} in any of the {ns}.
    The level of {chemical} was {measure} in the {a} {n}.
    Add {measure} of {chemical} to the {n} and {v} for {small} minutes.
    The {role} has {p} the {n} and recommends that we {v} it.
    There were no {a} {ns} among the {small} {ns} {p}.
    Because of the {a} {n}, {ns} could not be {p}.
    Additional {ns} can be {p} from {company}, {town}.
    For {a} {ns}, see the reverse side of this {n}.
    Type or print all {ns}. Attach {a} sheets if necessary.
    To be {p} by the {role} only.
    For {dept} use only. Do not write below this line.
    Return the white copy to {dept}; keep the {a} copy for your {ns}.
    {count} {ns} at {amount} each will be {p} to {company}.
    Effective {date}, all {ns} will be {p} through the {dept} office.
    The {n} {p} in {town} is {a} and will {v} about {count} {ns}.
    We do not {v} that the {t} should be {p}.
    Our {role}, {person}, will {v} you next week to {v} the {ns}.
    Changes in the {n} are subject to {a} {n}.
    Unless otherwise {p}, the {n} shall {v} to the {ns} of this {n}.
    Liability for {ns} is {p} to {amount} per {n}.
    The {n} expires on {date} unless it is {p} in writing.
    Response to the {n} has been {a}.
    The {ns} liked the {n} but felt that the {n} was too {a}.
    {pct} of the {ns} said they would {v} the {n} again.
    Store managers {p} that {ns} are {a} and that the {n} is {a}.
    Delivery of the {ns} is {p} in {small} weeks.
    We are {p} to {v} {count} {ns} from {company} to {company}.
    """
)

_QUESTIONS = lines(
    """
    How many {ns} were {p} in {period}?
    How many {ns} do you {v} per week?
    What is the {a} {n} of your {n}?
    What is your reaction to the {t}?
    Who {p} the {n}?
    Which {ns} have been {p} by the {n}?
    When was the {n} {p}?
    Where are the {ns} {p}?
    Is the {n} {p}?
    Are {ns} {p} before the {n} is {p}?
    Has the {n} been {p} by the {role}?
    Have you ever {p} a {a} {n}?
    Does the {n} {v} the {a} {ns}?
    Do you {v} {ns} of {a} {n}?
    Will the {n} be {p} after {date}?
    Why was the {n} not {p}?
    How would you rate the {n}?
    How often do you {v} the {ns}?
    If yes, explain the {n}
    If no, give the reason for {n}
    List all {ns} {p} in the past {small} years
    Describe the {n} and the {ns} {p}
    Give the name and address of the {n}
    State the {n} of any {a} {ns}
    Explain any {a} {ns}
    Number of {ns} that {v} {ns}
    Was the {n} {p} in the {n}?
    To what extent are the {ns} {a}?
    What {ns} are needed to {v} the {n}?
    Indicate the {n} which best describes your {n}
    """
)

_NOTES = lines(
    """
    see {n} {code}
    {p} by {person}
    none
    none at this time
    {ns} are {a}
    no {ns} {p}
    as per {n}
    {a} {n}, {p} {date}
    will {v} next week
    not {p}
    {count} {ns} and {count} {ns}
    {n} {p} and {p}
    to be {p} by {dept}
    {a} {ns} in {town}
    awaiting {n} from {company}
    the {n} is {a} and well {p}
    {ns} for {brand}
    continue to {v} {ns}
    {pct} of {ns}
    {n} for {n}
    """
)

_GAP = re.compile(r"\{(\w+)\}")


def _small(dice: Dice, trade: str) -> str:
    del trade
    return str(dice.integer(2, 30))


_FILLINGS: dict[str, Callable[[Dice, str], str]] = {
    "n": phrases.noun,
    "ns": lambda dice, trade: phrases.plural(phrases.noun(dice, trade)),
    "t": phrases.thing,
    "a": lambda dice, trade: dice.pick(qualities.ADJECTIVES),
    "p": lambda dice, trade: dice.pick(qualities.PARTICIPLES),
    "v": lambda dice, trade: dice.pick(qualities.VERBS),
    "role": lambda dice, trade: dice.pick(qualities.ROLES),
    "dept": lambda dice, trade: dice.pick(qualities.DEPARTMENTS),
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
    return filled(dice.pick(_SENTENCES), dice, trade)


def paragraph(dice: Dice, trade: str, sentences: int) -> str:
    """Returns this many sentences."""
    return " ".join(sentence(dice, trade) for _ in range(sentences))


def question(dice: Dice, trade: str) -> str:
    """Returns a question as questionnaires put them."""
    return filled(dice.pick(_QUESTIONS), dice, trade)


def note(dice: Dice, trade: str) -> str:
    """Returns a remark as people fill it in."""
    return filled(dice.pick(_NOTES), dice, trade)


def heading(dice: Dice, trade: str) -> str:
    """Returns the title of a section."""
    patterns = (
        "{n} information",
        "{n} data",
        "{a} {n}",
        "{n} and {n}",
        "{t}",
        "{ns}",
        "{n} {n} summary",
        "{role} information",
        "{n} {ns}",
        "details of {n}",
        "for {dept} use only",
        "{dept}",
        "to be completed by {role}",
        "{n} requirements",
        "{n} results",
        "{n} history",
        "general {n}",
        "part {small} - {ns}",
    )
    return filled(dice.pick(patterns), dice, trade)


def trade(dice: Dice) -> str:
    """Returns the name of a trade."""
    return dice.pick(vocabulary.TRADES)
