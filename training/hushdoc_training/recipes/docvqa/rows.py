"""Rows: questions with the windows that they are learned from, grouped by the privacy unit.

A pointer reads all questions about a window at once, so these rows are one example; of VT5 each row
is one. Which rows a record has is a function of that record alone. A question whose answer stands
on the page has the window that holds it and, where there are others, one of them as a row without
an answer; a question without an answer has one window. Which windows and, of a large record, which
questions are read is chosen by a public hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hushdoc.document.document import Document
from hushdoc.errors import HushdocError
from hushdoc.labels import LabelledDocument, Question
from hushdoc.runtime.encoding import EncodedPage, IntArray
from hushdoc.runtime.questions import QuestionEncoder, QuestionRow, by_window
from hushdoc_training.data import providers
from hushdoc_training.privacy.records import UNIT_DEFINITIONS, Records
from hushdoc_training.recipes.kie.records import Image, image_of
from hushdoc_training.runs.document_units import MAX_QUESTIONS, QUESTIONS

UNITS = ("provider", "document")
"""Privacy units that records can be made of here."""

SALT = "hushdoc questions 1"
"""Public and never changed: another one would choose other questions and windows."""

NONE: IntArray = np.zeros(2, dtype=np.int64)
"""The target of a window that has no answer: both ends at the first token."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Row:
    """A question with a window and its target.

    For a pointer that is the first and last token of the answer in the row, for VT5 the answer's
    tokens with their end, alone where there is no answer.
    """

    asked: QuestionRow
    target: IntArray
    answered: bool  # whether the window has the answer
    image: Image | None = None  # of the window's page; None where the model reads none


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Example:
    """Rows of one window, which have one loss: their mean."""

    rows: tuple[Row, ...]

    @property
    def start(self) -> int:
        """The window's first token on its page."""
        return self.rows[0].asked.start

    @property
    def stop(self) -> int:
        """One after the window's last token."""
        return self.rows[0].asked.stop


class Pages(NamedTuple):
    """A document's pages as a model reads them: tokens, and images where it reads those."""

    encoded: list[EncodedPage]
    images: list[Image | None]

    @classmethod
    def of(cls, document: Document, encoder: QuestionEncoder) -> Pages:
        """Returns the pages of a document."""
        settings = encoder.asking.image
        images = [image_of(document, number, settings) for number in range(len(document.pages))]
        return cls(encoded=[encoder.page(page) for page in document.pages], images=images)


def unit_definition(unit: str) -> str:
    """Returns what one unit is, in a certificate."""
    if unit == "document":
        return f"{UNIT_DEFINITIONS[unit]}; {QUESTIONS}"
    return f"{UNIT_DEFINITIONS[unit]}; {providers.TOLD}; {QUESTIONS}"


def records_of(
    documents: Sequence[LabelledDocument], encoder: QuestionEncoder, *, unit: str
) -> Records[Example]:
    """Returns the records that a privacy unit makes of documents.

    Raises:
        AnnotationError: Providers are protected, and a document has none.
        ValueError: The unit is neither document nor provider.
    """
    if unit not in UNITS:
        raise ValueError(f"privacy_unit is '{unit}'; expected one of {', '.join(UNITS)}.")
    by_provider = unit == "provider"
    groups = providers.grouped(documents).values() if by_provider else [[d] for d in documents]
    return Records([examples_of(group, encoder) for group in groups], unit=unit)


def examples_of(
    documents: Iterable[LabelledDocument], encoder: QuestionEncoder, *, most: int = MAX_QUESTIONS
) -> list[Example]:
    """Returns the examples of a record: of at most so many questions of its documents."""
    rows = rows_of(documents, encoder, most=most)
    if encoder.asking.kind == "vt5":
        return [Example(rows=(row,)) for row in rows]
    return [Example(rows=tuple(some)) for some in by_window(rows, lambda row: row.asked)]


def rows_of(
    documents: Iterable[LabelledDocument], encoder: QuestionEncoder, *, most: int = MAX_QUESTIONS
) -> list[Row]:
    """Returns the rows of a record: of at most so many questions of its documents."""
    asked = [
        (_hash(labelled, question), place, labelled, question)
        for place, labelled in enumerate(documents)
        for question in labelled.questions
    ]
    pages: dict[int, Pages] = {}
    rows = []
    for drawn, place, labelled, question in sorted(asked, key=lambda each: each[:2])[:most]:
        if place not in pages:
            pages[place] = Pages.of(labelled.document, encoder)
        rows += _rows(question, pages[place], encoder, drawn)
    return rows


def _rows(question: Question, pages: Pages, encoder: QuestionEncoder, drawn: bytes) -> list[Row]:
    """Returns a question's rows; none where it can't be read or its answer is nowhere in full."""
    try:
        ids = encoder.question(question.text)
    except HushdocError:  # blank, too long or of no known token: nothing can be learned from it
        return []
    windows = [row for _, row in windows_of(question, ids, pages, encoder)]
    held = [row for row in windows if row.answered]
    others = [row for row in windows if not row.answered]
    chosen = [others[int.from_bytes(drawn[:8], "big") % len(others)]] if others else []
    if not question.answers:
        return chosen
    return [*held[:1], *chosen] if held else []


def windows_of(
    question: Question, ids: IntArray, pages: Pages, encoder: QuestionEncoder
) -> list[tuple[int, Row]]:
    """Returns all windows beside a question's tokens, each with its page and its target."""
    made = []
    for window in encoder.windows(pages.encoded, ids):
        page, image = pages.encoded[window.page], pages.images[window.page]
        row = QuestionRow(question=ids, page=page, start=window.start, stop=window.stop)
        tokens = _tokens(question, page) if window.page == question.page else NONE[:0]
        inside = len(tokens) > 0 and window.start <= tokens[0] and tokens[1] < window.stop
        target = _target(question, tokens - window.start, row, encoder, inside=inside)
        made.append((window.page, Row(asked=row, target=target, answered=inside, image=image)))
    return made


def _target(
    question: Question,
    tokens: IntArray,
    row: QuestionRow,
    encoder: QuestionEncoder,
    *,
    inside: bool,
) -> IntArray:
    """Returns what a row is to be answered with; `tokens` are the answer's in its window."""
    if encoder.asking.kind == "vt5":
        return encoder.answer(question.answers[0] if inside and question.answers else "")
    return encoder.first_token(row) + tokens if inside else NONE


def _tokens(question: Question, page: EncodedPage) -> IntArray:
    """Returns the first and last token of a question's answer, where it is one run of words."""
    words = sorted(set(question.word_ids))
    if not words or words[-1] - words[0] + 1 != len(words):
        return NONE[:0]
    return np.flatnonzero(np.isin(page.words, words))[[0, -1]] if _read(words, page) else NONE[:0]


def _read(words: Sequence[int], page: EncodedPage) -> bool:
    """Returns whether an answer's first and last word have tokens."""
    return bool(np.isin([words[0], words[-1]], page.words).all())


def _hash(labelled: LabelledDocument, question: Question) -> bytes:
    text = "\n".join((SALT, labelled.document.id, question.text))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
