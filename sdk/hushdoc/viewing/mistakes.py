"""Documents with most mistakes as one web page: what was missed, what is wrong, what is right.

As `viewing.html`, the page loads nothing and runs nothing, and whatever a document says is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hushdoc.document.page import Box, union
from hushdoc.evaluation import NOTE, DocumentResult, Entity, Evaluation
from hushdoc.metrics import LabelCounts, macro_f1
from hushdoc.viewing import html
from hushdoc.viewing.markup import figures, page, paragraph, section, table
from hushdoc.viewing.overlay import Style

LOOKS = {
    "missed": Style(colour=(213, 94, 0), dashed=True),
    "wrong": Style(colour=(204, 121, 167), dashed=False),
    "right": Style(colour=(0, 158, 115), dashed=False),
}
"""Colours of `overlay.PALETTE`; what was missed has a dashed box, as nothing was found there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    """A field as `viewing.html` shows it: its label says first what became of it."""

    label: str
    text: str
    score: float
    page: int
    box: Box
    word_ids: tuple[int, ...]
    start: None = None
    stop: None = None


def to_html(evaluation: Evaluation, *, title: str) -> str:
    """Returns a web page of an evaluation: its scores, and the documents with most mistakes.

    Raises:
        InputError: The image of a page can't be read, or has changed.
        MissingExtraError: Pillow is not installed.
    """
    total = evaluation.at_words.total()
    parts = [
        figures(
            [
                (f"{total.f1:.3f}", "F1 at the words"),
                (f"{evaluation.by_value.total().f1:.3f}", "F1 by value"),
                (
                    f"{evaluation.all_right['at_words']} of {evaluation.documents}",
                    "documents without a mistake",
                ),
            ]
        ),
        paragraph(NOTE, style="soft"),
        section("Fields at their words", _scores(evaluation.at_words)),
        section("Fields by value", _scores(evaluation.by_value)),
    ]
    first = 0
    for result in evaluation.worst:
        parts.append(_document(result, first))
        first += len(result.right) + result.mistakes
    return page(title, parts, style=html.STYLE, images=True)


def _scores(counts: LabelCounts) -> str:
    labels = counts.by_label()
    rows = [*labels.items(), ("all, by fields", counts.total())]
    body = [
        [
            label,
            str(score.expected),
            str(score.found),
            str(score.correct),
            *(f"{value:.3f}" for value in (score.precision, score.recall, score.f1)),
        ]
        for label, score in rows
    ]
    mean = ["all, by labels", "", "", "", "", "", f"{macro_f1(labels):.3f}"]
    head = ("field", "expected", "found", "right", "precision", "recall", "F1")
    return table(head, [*body, mean])


def _document(result: DocumentResult, first: int) -> str:
    """Returns a document's pages, its fields numbered from `first` for links of its own."""
    shown = [
        *_fields("missed", result.missed, result),
        *_fields("wrong", result.wrong, result),
        *_fields("right", result.right, result),
    ]
    looks = {item.label: LOOKS[item.label.split(":")[0]] for item in shown}
    numbered = [(number, item, False) for number, item in enumerate(shown, start=first)]
    from hushdoc.reading.drawing import kept_open

    with kept_open() as draw:
        sheets = [
            html.sheet(found, [item for item in numbered if item[1].page == number], looks, draw)
            for number, found in enumerate(result.document.pages)
            if any(item.page == number for item in shown)
        ]
    return section(
        f"{result.document.id}: {len(result.missed)} missed, {len(result.wrong)} wrong", *sheets
    )


def _fields(verdict: str, items: Iterable[Entity], result: DocumentResult) -> list[_Shown]:
    return [
        _Shown(
            label=f"{verdict}: {item.label}",
            text=item.text,
            score=item.score or 0.0,
            page=item.page,
            box=union(result.document.pages[item.page].words[word].box for word in item.words),
            word_ids=tuple(sorted(item.words)),
        )
        for item in items
    ]
