"""Tags and spans are two spellings of the same thing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError
from hushdoc.labels import (
    LabelledDocument,
    LabelSet,
    Span,
    spans_from_tags,
    spans_from_words,
    tags_from_spans,
)

NAMES = st.sampled_from(["date", "total", "line-item"])


@st.composite
def pages(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """Draws a number of words and spans over them that do not overlap."""
    spans, position = [], 0
    for gap, length, label in draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), NAMES), max_size=6)
    ):
        start = position + gap
        position = start + length
        spans.append(Span(page=2, start=start, stop=position, label=label))
    return position + draw(st.integers(0, 3)), spans


@given(pages())
def test_spans_survive_their_spelling_as_tags(page: tuple[int, list[Span]]) -> None:
    num_words, spans = page
    tags = tags_from_spans(num_words, spans)
    assert len(tags) == num_words
    assert spans_from_tags(tags, page=2) == spans


@given(st.lists(st.sampled_from(LabelSet(fields=("a", "b")).tags)))
def test_any_tags_give_ordered_spans_that_do_not_overlap(tags: list[str]) -> None:
    spans = spans_from_tags(tags)
    for before, after in pairwise(spans):
        assert before.stop <= after.start
    labelled = {word for span in spans for word in range(span.start, span.stop)}
    assert labelled == {word for word, tag in enumerate(tags) if tag != "O"}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["I-a", "I-a"], [(0, 2, "a")]),
        (["B-a", "I-b"], [(0, 1, "a"), (1, 2, "b")]),
        (["B-a", "B-a"], [(0, 1, "a"), (1, 2, "a")]),
        (["B-a", "O", "I-a"], [(0, 1, "a"), (2, 3, "a")]),
        ([], []),
    ],
)
def test_tags_that_no_span_spells_are_read_as_conll_does(
    tags: list[str], expected: list[tuple[int, int, str]]
) -> None:
    found = [(span.start, span.stop, span.label) for span in spans_from_tags(tags)]
    assert found == expected


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (2, 1), (-1, 1), (3, 6)])
def test_spans_off_the_page_are_refused(start: int, stop: int) -> None:
    with pytest.raises(AnnotationError, match="a page with 5 words"):
        tags_from_spans(5, [Span(page=0, start=start, stop=stop, label="a")])


def test_overlapping_spans_are_refused() -> None:
    spans = [Span(page=0, start=0, stop=3, label="a"), Span(page=0, start=2, stop=4, label="b")]
    with pytest.raises(AnnotationError, match="overlaps another"):
        tags_from_spans(5, spans)


def test_one_set_of_labels_has_one_spelling() -> None:
    assert LabelSet(fields=("b", "a", "b")) == LabelSet(fields=("a", "b"))
    assert LabelSet(fields=("b", "a")).tags == ("O", "B-a", "I-a", "B-b", "I-b")
    assert LabelSet(fields=()).tags == ("O",)


def test_labels_are_gathered_from_documents() -> None:
    document = Document.from_words(["x"], [(0, 0, 1, 1)], width=2, height=2)
    items = [
        LabelledDocument(document=document, spans=(Span(page=0, start=0, stop=1, label=name),))
        for name in ("total", "date", "total")
    ]
    assert LabelSet.from_documents(items).fields == ("date", "total")


@given(st.sets(st.integers(0, 40)))
def test_spans_of_words_hold_exactly_those_words(words: set[int]) -> None:
    spans = spans_from_words(words, label="total", page=2)
    assert [word for span in spans for word in range(span.start, span.stop)] == sorted(words)
    assert all(one.stop < other.start for one, other in pairwise(spans))
    assert {(span.label, span.page) for span in spans} <= {("total", 2)}
