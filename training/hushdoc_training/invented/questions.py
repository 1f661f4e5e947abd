"""Questions that people ask about documents, with the words that answer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hushdoc.labels import Question
from hushdoc_training.invented.random_draws import Dice

_ABOUT_FIELDS: dict[str, tuple[str, ...]] = {
    "customer_address": (
        "What is the customer's address?",
        "Where does the customer live?",
        "To which address is this {kind} addressed?",
        "What is the billing address?",
    ),
    "customer_name": (
        "Who is the customer?",
        "Who is this {kind} for?",
        "To whom is the {kind} addressed?",
        "What is the name of the client?",
        "Who has to pay this {kind}?",
    ),
    "date": (
        "What is the date of this {kind}?",
        "When was this {kind} issued?",
        "What is the {kind} date?",
        "On which date was the {kind} written?",
    ),
    "document_number": (
        "What is the {kind} number?",
        "Which number does this {kind} have?",
        "What is the number of the {kind}?",
        "Under which reference was this {kind} issued?",
    ),
    "due_date": (
        "When is the payment due?",
        "What is the due date?",
        "By when must this {kind} be paid?",
        "Until which date can the {kind} be paid?",
    ),
    "iban": (
        "What is the account number of the payee?",
        "To which account should the money be sent?",
        "What is the IBAN?",
        "Which bank account is given?",
    ),
    "phone": (
        "What is the phone number of the provider?",
        "Which telephone number is given?",
        "What number can I call?",
        "What is the provider's telephone number?",
    ),
    "provider_address": (
        "What is the address of the provider?",
        "Where is the company that issued this {kind}?",
        "What is the provider's address?",
        "What is the address of the seller?",
    ),
    "provider_name": (
        "Who issued this {kind}?",
        "Which company is this {kind} from?",
        "What is the name of the provider?",
        "Who is the provider?",
        "What is the name of the company?",
    ),
    "subtotal": (
        "What is the subtotal?",
        "What is the amount before tax?",
        "How much is the {kind} without tax?",
        "What is the net amount?",
    ),
    "tax": (
        "How much tax is charged?",
        "What is the tax amount?",
        "What is the amount of tax on this {kind}?",
    ),
    "tax_id": (
        "What is the tax number of the provider?",
        "What is the provider's tax ID?",
        "Which tax identification number is given?",
    ),
    "total": (
        "What is the {kind} total?",
        "What is the total amount?",
        "How much is to be paid?",
        "What is the total of this {kind}?",
        "How much does this {kind} come to?",
    ),
}

_ABOUT_KEYS = (
    "What is written in the field '{key}'?",
    "What is the {lower}?",
    "What is given as {lower}?",
    "What does the {kind} say for '{key}'?",
    "What is the value of '{key}'?",
    "What was filled in at '{key}'?",
    "Which entry belongs to '{key}'?",
)

_ABOUT_COMMON: dict[str, tuple[str, ...]] = {
    name: wordings
    for names, wordings in (
        (
            ("to", "attention", "attn", "addressee", "deliver to", "please deliver to"),
            ("To whom is this {kind} addressed?", "Who is the {kind} for?", "Who should get this?"),
        ),
        (
            ("from", "sender", "sent by", "submitted by", "originator"),
            ("Who sent this {kind}?", "From whom is the {kind}?", "Who is the sender?"),
        ),
        (
            ("subject", "re", "regarding", "subj", "concerning", "topic"),
            ("What is the {kind} about?", "What is the subject?", "What does this {kind} concern?"),
        ),
        (
            ("cc", "c", "copies to", "copy", "copies", "bcc", "xc", "distribution"),
            ("Who gets a copy?", "To whom do copies go?", "Who else receives this {kind}?"),
        ),
        (
            ("date", "dated", "date issued"),
            ("What is the date?", "When was this {kind} written?", "What date does it bear?"),
        ),
    )
    for name in names
}

_ABOUT_CELLS = (
    "What is the '{column}' of '{row}'?",
    "What does the table give for '{row}' under '{column}'?",
    "Which entry stands in row '{row}', column '{column}'?",
    "For '{row}', what is '{column}'?",
)

_ABOUT_ITEMS: dict[str, tuple[str, ...]] = {
    "item_amount": ("How much was charged for '{item}'?", "What did '{item}' cost in all?"),
    "item_quantity": ("How many of '{item}' were bought?", "What is the quantity of '{item}'?"),
    "item_price": ("What is the unit price of '{item}'?", "How much does one '{item}' cost?"),
}

_NO_NOUNS = frozenset(
    {"from", "sold to", "ship to", "bill to", "deliver to", "regarding", "dated", "received"}
)
_MOST = 8


class Said(NamedTuple):
    """A segment of the finished page: its words' indices, its text as read and as it was meant."""

    word_ids: tuple[int, ...]
    text: str
    meant: str
    field: str | None


def questions(
    said: Sequence[Said | None],
    pairs: Iterable[tuple[int, int]],
    rows: Iterable[tuple[int, ...]],
    cells: Iterable[tuple[int, int, int]],
    kind: str,
    dice: Dice,
) -> tuple[Question, ...]:
    """Returns questions about fields, about labelled values and about items of a table.

    Args:
        said: What stands in every segment, by its number; None where nothing came to stand.
        pairs: Segments of a label and its value (-1 where it is blank).
        rows: Segments that describe one item, its description first.
        cells: Segments of a row's head, a column's head and their cell.
        kind: The kind of document, for the wording.
        dice: Chooses the wording and which questions are asked.
    """
    found = [*_about_fields(said, kind, dice), *_about_items(said, rows, dice)]
    found += _about_keys(said, pairs, kind, dice)
    found += _about_cells(said, cells, dice)
    chosen: dict[str, Question] = {}
    for asked in dice.shuffled(found):
        chosen.setdefault(asked.text, asked)
    return tuple(chosen.values())[:_MOST]


def _about_fields(said: Sequence[Said | None], kind: str, dice: Dice) -> list[Question]:
    once: dict[str, list[Said]] = {}
    for segment in said:
        if segment is not None and segment.field in _ABOUT_FIELDS:
            once.setdefault(segment.field, []).append(segment)
    return [
        _asked(dice.pick(_ABOUT_FIELDS[name]).format(kind=kind), segments[0])
        for name, segments in once.items()
        if len({segment.text for segment in segments}) == 1
    ]


def _about_keys(
    said: Sequence[Said | None], pairs: Iterable[tuple[int, int]], kind: str, dice: Dice
) -> list[Question]:
    values: dict[str, list[Said]] = {}
    for question, answer in pairs:
        label, value = said[question], said[answer] if answer >= 0 else None
        if label is not None and value is not None and len(label.text) < 60:
            values.setdefault(label.text.rstrip(" :.-?"), []).append(value)
    asked: list[Question] = []
    for key, found in values.items():
        if not key or len(found) > 1:
            continue
        known = _ABOUT_COMMON.get(key.lower(), ())
        wording = dice.pick(known if known and dice.chance(0.6) else _quoting(key))
        asked.append(_asked(wording.format(key=key, lower=_lowered(key), kind=kind), found[0]))
    return asked


def _quoting(key: str) -> tuple[str, ...]:
    """Returns the wordings that suit a label; only nouns can stand without quotes."""
    if len(key) > 3 and key.lower() not in _NO_NOUNS:
        return _ABOUT_KEYS
    return tuple(wording for wording in _ABOUT_KEYS if "{key}" in wording)


def _about_items(
    said: Sequence[Said | None], rows: Iterable[tuple[int, ...]], dice: Dice
) -> list[Question]:
    asked: list[Question] = []
    items: dict[str, tuple[int, ...] | None] = {}
    for row in rows:
        item = said[row[0]]
        if item is not None:
            items[item.text] = None if item.text in items else row
    for text, found in items.items():
        for number in (found or ())[1:]:
            value = said[number]
            if value is not None and value.field in _ABOUT_ITEMS and dice.chance(0.4):
                wording = dice.pick(_ABOUT_ITEMS[value.field])
                asked.append(_asked(wording.format(item=text), value))
    return asked


def _about_cells(
    said: Sequence[Said | None], cells: Iterable[tuple[int, int, int]], dice: Dice
) -> list[Question]:
    where: dict[tuple[str, str], list[Said]] = {}
    for row, column, cell in cells:
        head, top, value = said[row], said[column], said[cell]
        if head is not None and top is not None and value is not None:
            names = (head.text.rstrip(" :?"), top.text.rstrip(" :?"))
            where.setdefault(names, []).append(value)
    asked = [
        _asked(dice.pick(_ABOUT_CELLS).format(row=row, column=column), found[0])
        for (row, column), found in where.items()
        if row and column and len(found) == 1
    ]
    return dice.sample(asked, 4)


def _lowered(key: str) -> str:
    """Returns a label as it stands in a sentence."""
    words = key.split()
    return " ".join(word.lower() if len(word) > 3 or not word.isupper() else word for word in words)


def _asked(text: str, value: Said) -> Question:
    answers = (value.text,) if value.text == value.meant else (value.text, value.meant)
    return Question(text=text, answers=answers, word_ids=value.word_ids)
