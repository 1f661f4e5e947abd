from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.labels import Span
from hushdoc_training.metrics import entity_score

spans = st.lists(
    st.builds(
        lambda start, length, label: Span(page=0, start=start, stop=start + length, label=label),
        st.integers(0, 20),
        st.integers(1, 3),
        st.sampled_from(["a", "b"]),
    ),
    max_size=8,
)


def test_counts_exact_words_and_label_only() -> None:
    # Worked by hand: of four found two are right, of three expected two are found.
    gold = [
        Span(page=0, start=0, stop=2, label="a"),
        Span(page=0, start=3, stop=4, label="b"),
        Span(page=1, start=0, stop=1, label="b"),
    ]
    found = [
        Span(page=0, start=0, stop=2, label="a"),
        Span(page=0, start=3, stop=5, label="b"),
        Span(page=0, start=6, stop=7, label="a"),
        Span(page=1, start=0, stop=1, label="b"),
    ]
    score = entity_score([(gold, found)])
    assert (score.precision, score.recall) == (2 / 4, 2 / 3)
    assert score.f1 == pytest.approx(2 * 2 / 7)
    assert entity_score([(gold, found)], label="b").correct == 1


def test_nothing_found_and_nothing_expected() -> None:
    assert entity_score([]).f1 == 0.0
    assert entity_score([([Span(page=0, start=0, stop=1, label="a")], [])]).f1 == 0.0


@given(spans, spans)
def test_swapping_sides_swaps_precision_and_recall(left: list[Span], right: list[Span]) -> None:
    one, other = entity_score([(left, right)]), entity_score([(right, left)])
    assert (one.precision, one.recall, one.f1) == (other.recall, other.precision, other.f1)
    assert 0 <= one.f1 <= 1
