"""From scores of both ends to runs of words."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.runtime.encoding import EncodedPage
from hushdoc.runtime.pointing import spans
from hushdoc.runtime.questions import QuestionRow


def row(lengths: list[int], start: int = 0, stop: int | None = None) -> QuestionRow:
    """Returns a window of a page whose words have so many tokens."""
    words = np.repeat(np.arange(len(lengths)), lengths)
    page = EncodedPage(
        ids=words,
        boxes=np.zeros((len(words), 4), np.int64),
        words=words,
        first=np.diff(words, prepend=-1) != 0,
        num_words=len(lengths),
        cut_words=(),
    )
    question = np.zeros(1, np.int64)
    return QuestionRow(question=question, page=page, start=start, stop=stop or len(words))


def by_enumeration(
    scores: np.ndarray, lengths: list[int], max_answer: int
) -> list[tuple[float, int, int]]:
    """Returns (score, first word, last word) of all runs of words, by the definition."""
    powers = [[math.exp(value) for value in column] for column in scores.T]
    start, end = ([value / sum(column) for value in column] for column in powers)
    offsets = [0, *itertools.accumulate(lengths)]
    found = []
    for one in range(len(lengths)):
        for other in range(one, len(lengths)):
            if offsets[other + 1] - offsets[one] <= max_answer:
                score = start[1 + offsets[one]] * end[offsets[other + 1]]
                found.append((score, one, other))
    return sorted(found, reverse=True)


@given(
    lengths=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    max_answer=st.integers(1, 6),
    count=st.integers(1, 9),
    seed=st.integers(0, 2**16),
)
def test_spans_are_those_of_the_definition(
    lengths: list[int], max_answer: int, count: int, seed: int
) -> None:
    scores = np.random.default_rng(seed).normal(0, 2, (1 + sum(lengths), 2))
    found = spans(scores, row(lengths), max_answer=max_answer, count=count)
    expected = by_enumeration(scores, lengths, max_answer)[:count]
    words = [(item.words.start, item.words.stop - 1) for item in found.candidates]
    assert words == [item[1:] for item in expected]
    assert [item.score for item in found.candidates] == pytest.approx(
        [item[0] for item in expected]
    )
    # All pairs of ends, also those that are no span, make one distribution.
    assert sum(item.score for item in found.candidates) + found.null_score <= 1 + 1e-9


def test_a_window_in_the_middle_of_a_page_names_the_pages_words() -> None:
    scores = np.zeros((5, 2))
    scores[1, 0] = scores[4, 1] = 9
    found = spans(scores, row([1, 2, 2, 1], 1, 5), max_answer=9, count=1)
    assert [item.words for item in found.candidates] == [range(1, 3)]


def test_where_no_word_is_short_enough_there_is_no_candidate() -> None:
    found = spans(np.zeros((4, 2)), row([3]), max_answer=2, count=3)
    assert found.candidates == ()
    assert found.null_score == pytest.approx(1 / 16)
