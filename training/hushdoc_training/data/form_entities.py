"""Entities of forms as FUNSD and XFUND list them: words, labels and links become a document.

Words keep the order of the annotation, each entity is one segment, and the label "other" becomes no
field, as in the LayoutLM papers. A link from a question to an answer becomes a question about the
document. Labels of one's own in files of this format are kept, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import failure_of, short_repr
from hushdoc.document.page import Page, Word
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Question, Span
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Problems

LABELS = LabelSet(fields=("answer", "header", "question"))
"""PrIeD-KIE, table 5; its fourth type, "other", is every word outside of all fields."""

OTHER = "other"
EMPTY = "entity without a word, left out"
LOST_LINK = "link to an entity that is missing or has no word"
SAME_ID = "entity with the id of another one"

_Ranges = Mapping[int, tuple[str, int, int]]


def labelled_form(
    identity: str,
    items: list[Any],
    size: tuple[int, int],
    image: Path | bytes | None,
    *,
    where: str,
    problems: Problems,
    between: str = " ",
) -> LabelledDocument | None:
    """Returns a form of these entities, None without a word; `between` joins the words of one."""
    words: list[Word] = []
    spans: list[Span] = []
    ranges: dict[int, tuple[str, int, int]] = {}
    links: list[tuple[int, int]] = []
    for number, item in enumerate(items):
        place = f"{where}, entity {number}"
        label, entries, identifier = _entity(item, place)
        start = len(words)
        for index, entry in enumerate(entries):
            word = _word(entry, number, size, f"{place}, word {index}", problems)
            if word is not None:
                words.append(word)
        links.extend(_links(item, place))
        if len(words) == start:
            problems.add(EMPTY, place)  # FUNSD marks some blank areas
            continue
        if label != OTHER:
            if label not in LABELS.fields:
                problems.add(annotated_pages.OTHER_LABEL, f"{place}: {label}")
            spans.append(Span(page=0, start=start, stop=len(words), label=label))
        if identifier is not None:
            if identifier in ranges:
                problems.add(SAME_ID, place)
            ranges[identifier] = (label, start, len(words))
    page = Page(width=size[0], height=size[1], words=tuple(words), image=image)
    document = annotated_pages.document(identity, [page], where=where, problems=problems)
    if document is None:
        return None
    pairs = dict.fromkeys(links)
    for source, target in pairs:
        if source not in ranges or target not in ranges:
            problems.add(LOST_LINK, f"{where}, [{source}, {target}]")
    return LabelledDocument(
        document=document,
        spans=tuple(spans),
        questions=_questions([word.text for word in words], ranges, list(pairs), between),
        document_type="form",
    )


def _entity(item: Any, place: str) -> tuple[str, list[Any], int | None]:
    if not isinstance(item, Mapping):
        raise AnnotationError(f"'{place}' is {type(item).__name__}, expected an object.")
    label = item.get("label")
    if not isinstance(label, str):
        raise AnnotationError(
            f"'{place}' has the label {short_repr(label)}; expected one of "
            f"{', '.join((*LABELS.fields, OTHER))}. Correct the annotation."
        )
    words = item.get("words")
    if not isinstance(words, list):
        raise AnnotationError(
            f"'{place}' has no list 'words'; expected [{{'text', 'box'}}]. Correct the annotation."
        )
    identifier = item.get("id")
    return (
        annotated_pages.name(label, where=f"label of '{place}'"),
        words,
        identifier if type(identifier) is int else None,
    )


def _word(
    entry: Any, segment: int, size: tuple[int, int], place: str, problems: Problems
) -> Word | None:
    try:
        text, box = entry["text"], entry["box"]
    except (KeyError, TypeError) as error:
        raise AnnotationError(
            f"'{place}' is malformed ({failure_of(error)}); expected "
            "{'text', 'box': [x0, y0, x1, y1]}. Correct the annotation."
        ) from error
    return annotated_pages.word(
        text, box, size=size, segment=segment, where=place, problems=problems
    )


def _links(item: Mapping[str, Any], place: str) -> list[tuple[int, int]]:
    links = item.get("linking", [])
    if not isinstance(links, list) or any(
        not isinstance(pair, list) or len(pair) != 2 or any(type(end) is not int for end in pair)
        for pair in links
    ):
        raise AnnotationError(
            f"'{place}' has malformed links {short_repr(links)}; expected [[from, to], ...] "
            "with entity ids. Correct the annotation."
        )
    return [(pair[0], pair[1]) for pair in links]


def _questions(
    words: list[str], ranges: _Ranges, links: list[tuple[int, int]], between: str
) -> tuple[Question, ...]:
    answers: dict[int, list[int]] = {}
    for source, target in links:
        pair = (ranges.get(source), ranges.get(target))
        if pair[0] and pair[1] and (pair[0][0], pair[1][0]) == ("question", "answer"):
            answers.setdefault(source, []).append(target)
    questions = []
    for source, targets in answers.items():
        _, start, stop = ranges[source]
        key = between.join(words[start:stop]).rstrip(" :：")
        parts = [ranges[target] for target in targets]
        questions.append(
            Question(
                text=f"What is the {key}?",
                answers=tuple(between.join(words[a:b]) for _, a, b in parts),
                word_ids=tuple(index for _, a, b in parts for index in range(a, b)),
            )
        )
    return tuple(questions)
