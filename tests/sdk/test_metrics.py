from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.labels import Span, spans_from_tags
from hushdoc.metrics import (
    LabelCounts,
    Score,
    entity_score,
    exact_match,
    macro_f1,
    nls,
    similarity,
    value_of,
)

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


def of_tags(*pages: str) -> list[tuple[str, object]]:
    """Returns the entities of tags, one string a page."""
    return [
        (span.label, span)
        for number, tags in enumerate(pages)
        for span in spans_from_tags(tags.split(), page=number)
    ]


def test_scores_are_those_of_the_conll_evaluation() -> None:
    """The example that seqeval's own page shows: F1 0.50, MISC 0.00 and PER 1.00 of one each."""
    counts = LabelCounts()
    counts.add(
        of_tags("O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"),
        of_tags("O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"),
    )
    assert counts.by_label() == {
        "MISC": Score(found=1, expected=1, correct=0),
        "PER": Score(found=1, expected=1, correct=1),
    }
    assert counts.total().f1 == macro_f1(counts.by_label()) == 0.5


def test_macro_and_micro_averages_by_hand() -> None:
    """One label with four fields, three found right and one beside; one that is never found; one
    that is found and not there. conlleval prints 60.00% precision, 50.00% recall, 54.55 F1."""
    counts = LabelCounts()
    counts.add(
        of_tags("B-a B-a O B-b I-b", "B-a O B-a B-b"),
        of_tags("B-a B-a O O O", "B-a O I-c B-a"),
    )
    assert counts.by_label() == {
        "a": Score(found=4, expected=4, correct=3),
        "b": Score(found=0, expected=2, correct=0),
        "c": Score(found=1, expected=0, correct=0),
    }
    total = counts.total()
    assert (total.precision, total.recall) == (3 / 5, 3 / 6)
    assert round(100 * total.f1, 2) == 54.55
    assert macro_f1(counts.by_label()) == pytest.approx(0.75 / 3)
    assert macro_f1({}) == LabelCounts().total().f1 == 0.0


def test_what_stands_several_times_in_a_document_is_one() -> None:
    counts = LabelCounts()
    counts.add([("total", "9"), ("total", "9")], [("total", "9"), ("total", "8"), ("tax", "9")])
    counts.add([("total", "9")], [])
    assert counts.total() == Score(found=3, expected=2, correct=1)


@given(spans, spans)
def test_labels_add_up_to_the_total(left: list[Span], right: list[Span]) -> None:
    counts = LabelCounts()
    counts.add([(span.label, span) for span in left], [(span.label, span) for span in right])
    assert counts.total() == entity_score([(left, right)])
    scores = counts.by_label().values()
    assert sum(score.correct for score in scores) == counts.total().correct
    for label, score in counts.by_label().items():
        assert score == entity_score([(left, right)], label=label)


def test_values_differ_in_case_and_not_in_spaces() -> None:
    assert value_of(" 12\u00a0 Main\nSt ") == value_of("12 Main St") != value_of("12 main st")


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "close"),
    [
        ("ACME  Ltd ", ("acme ltd",), 1.0, 1.0),
        ("acme lt", ("ACME Ltd",), 0.0, 7 / 8),
        ("acme", ("ACME Ltd",), 0.0, 0.5),  # exactly at the threshold
        ("acm", ("ACME Ltd",), 0.0, 0.0),  # 3 of 8 letters
        ("12.50", ("99", "12,50"), 0.0, 0.8),
        ("none", ("ACME Ltd",), 0.0, 0.0),
        ("", ("ACME Ltd",), 0.0, 0.0),
        (None, ("ACME Ltd",), 0.0, 0.0),
        (None, (), 1.0, 1.0),
        ("acme", (), 0.0, 0.0),
    ],
)
def test_answers_by_hand(
    prediction: str | None, answers: tuple[str, ...], exact: float, close: float
) -> None:
    assert exact_match(prediction, answers) == exact
    assert nls(prediction, answers) == pytest.approx(close, abs=1e-12)


def test_distances_are_those_of_the_recurrence() -> None:
    def distance(one: str, other: str) -> int:
        if not one or not other:
            return len(one) + len(other)
        return min(
            distance(one[1:], other) + 1,
            distance(one, other[1:]) + 1,
            distance(one[1:], other[1:]) + (one[0] != other[0]),
        )

    for one in ("a", "ab", "kitt", "sitin", "aabba"):
        for other in ("b", "ba", "sittin", "tik"):
            by_hand = 1 - distance(one, other) / max(len(one), len(other))
            assert similarity(one, other) == pytest.approx(by_hand, abs=1e-12)


@given(st.text("abé\U0001f600", max_size=90), st.text("abé\U0001f600", max_size=90))
def test_distances_of_long_texts_are_those_of_the_recurrence(one: str, other: str) -> None:
    row = list(range(len(other) + 1))
    for count, letter in enumerate(one, start=1):
        before, row[0] = row[0], count
        for place, found in enumerate(other, start=1):
            kept = before + (letter != found)
            before, row[place] = row[place], min(kept, row[place] + 1, row[place - 1] + 1)
    expected = 1 - row[-1] / max(len(one), len(other)) if one and other else 0.0
    assert similarity(one, other) == expected


def test_answers_of_a_page_are_compared_in_a_moment() -> None:
    """The recurrence, place by place, took 13 seconds for two texts of 10,000 letters."""
    one, other = "invoice no 4711 " * 400, "no 4711 invoice " * 400
    started = time.process_time()
    assert nls(one, [other]) == 1 - 16 / 6399  # without the last space
    assert time.process_time() - started < 1


@given(st.text("abc", max_size=8), st.lists(st.text("abc", min_size=1, max_size=8), max_size=3))
def test_an_answer_is_close_to_itself_and_more_answers_never_hurt(
    prediction: str, answers: list[str]
) -> None:
    score = nls(prediction, answers)
    assert exact_match(prediction, answers) <= score <= 1
    if answers:
        assert nls(prediction, [*answers, "c"]) >= score
        assert nls(answers[0], answers) == 1.0
        assert similarity(prediction, answers[0]) == similarity(answers[0], prediction)
