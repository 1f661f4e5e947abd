"""The best path through a page's tags, against one that tries them all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hushdoc.document.document import Document
from hushdoc.labels import LabelSet
from hushdoc.runtime.decoding import joined_words, softmax, viterbi

TAGS = LabelSet(fields=("a", "b")).tags


def allowed(tags: tuple[str, ...], joined: tuple[bool, ...] = ()) -> bool:
    """Says whether every I follows its own label, and no B does within a segment."""
    steps = list(zip(("O", *tags), tags, strict=False))
    held = joined or (False,) * len(tags)
    return all(
        (not tag.startswith("I-") or before[2:] == tag[2:])
        and not (held[word] and tag.startswith("B-") and before[2:] == tag[2:])
        for word, (before, tag) in enumerate(steps)
    )


@st.composite
def pages(draw: st.DrawFn) -> np.ndarray:
    words = draw(st.integers(1, 5))
    scores = draw(arrays(float, (words, len(TAGS)), elements=st.floats(0.001, 1)))
    return scores / scores.sum(axis=1, keepdims=True)


@given(pages())
def test_no_allowed_path_is_better(scores: np.ndarray) -> None:
    path = viterbi(scores)
    assert allowed(tuple(TAGS[tag] for tag in path))
    found = np.log(scores[np.arange(len(path)), path]).sum()
    best = max(
        np.log([scores[word, tag] for word, tag in enumerate(tags)]).sum()
        for tags in itertools.product(range(len(TAGS)), repeat=len(scores))
        if allowed(tuple(TAGS[tag] for tag in tags))
    )
    assert found == pytest.approx(best)


@given(pages(), st.lists(st.booleans(), min_size=5, max_size=5))
def test_within_a_segment_no_field_ends_for_another_of_its_label(
    scores: np.ndarray, marks: list[bool]
) -> None:
    joined = (False, *marks)[: len(scores)]
    path = viterbi(scores, np.array(joined))
    assert allowed(tuple(TAGS[tag] for tag in path), joined)
    found = np.log(scores[np.arange(len(path)), path]).sum()
    best = max(
        np.log([scores[word, tag] for word, tag in enumerate(tags)]).sum()
        for tags in itertools.product(range(len(TAGS)), repeat=len(scores))
        if allowed(tuple(TAGS[tag] for tag in tags), joined)
    )
    assert found == pytest.approx(best)


def test_words_are_joined_by_their_segment() -> None:
    page = Document.from_words(
        list("abcdef"),
        [(10 * i, 0, 10 * i + 5, 5) for i in range(6)],
        width=100,
        height=10,
        segments=[0, 0, 1, None, None, 1],
    ).pages[0]
    assert joined_words(page).tolist() == [False, True, False, False, False, False]


def test_a_word_that_was_not_read_joins_what_stands_around_it() -> None:
    read = {"O": [0.9, 0.02, 0.04, 0.02, 0.02], "B": [0.1, 0.6, 0.1, 0.1, 0.1]}
    inside = [0.02, 0.02, 0.92, 0.02, 0.02]
    unread = [np.nan] * 5
    within = viterbi(np.array([read["B"], unread, inside]))
    assert [TAGS[tag] for tag in within] == ["B-a", "I-a", "I-a"]
    outside = viterbi(np.array([read["O"], unread, read["O"]]))
    assert [TAGS[tag] for tag in outside] == ["O", "O", "O"]
    assert viterbi(np.full((3, 5), np.nan)).tolist() == [0, 0, 0]


def test_certain_scores_are_no_trouble() -> None:
    scores = np.eye(5)[[0, 1, 2, 0]]
    assert viterbi(scores).tolist() == [0, 1, 2, 0]
    # No path is possible: certainty where an I may not stand.
    assert len(viterbi(np.eye(5)[[2, 2]])) == 2


@pytest.mark.parametrize("shape", [(0, 5), (4, 1)])
def test_pages_without_words_and_models_without_fields(shape: tuple[int, int]) -> None:
    assert viterbi(np.ones(shape)).tolist() == [0] * shape[0]


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=9))
def test_probabilities_sum_to_one(logits: list[float]) -> None:
    found = softmax(np.array([logits], dtype=np.float32))
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
