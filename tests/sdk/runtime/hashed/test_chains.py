"""The best labels are exactly those that crfsuite's arithmetic finds, ties and all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hushdoc.runtime.hashed import chains
from hushdoc.runtime.hashed.chains import Offsets, Scores


def one_by_one(scores: Scores, transitions: Scores) -> list[int]:
    """Viterbi as crfsuite writes it: the first of equally good labels wins."""
    best = scores[0].tolist()
    came_from = []
    for own in scores[1:].tolist():
        sources, now = [], []
        for label, value in enumerate(own):
            top, source = -np.inf, 0
            for before, reached in enumerate(best):
                if reached + transitions[before, label] > top:
                    top, source = reached + transitions[before, label], before
            sources.append(source)
            now.append(top + value)
        came_from.append(sources)
        best = now
    path = [max(range(len(best)), key=best.__getitem__)]
    for sources in reversed(came_from):
        path.append(sources[path[-1]])
    return path[::-1]


def expected(scores: Scores, offsets: Offsets, transitions: Scores) -> list[int]:
    return [
        label
        for start, stop in itertools.pairwise(offsets.tolist())
        if stop > start
        for label in one_by_one(scores[start:stop], transitions)
    ]


@pytest.mark.parametrize("labels", [1, 2, 3, 9, 12, 13, 30])
@pytest.mark.parametrize("sequences", [1, 2, 30, 120])
@pytest.mark.parametrize("whole", [False, True], ids=["any", "with-ties"])
def test_paths_are_those_of_one_step_after_the_other(
    labels: int, sequences: int, whole: bool
) -> None:
    generator = np.random.default_rng(labels * 1000 + sequences)
    offsets = np.cumsum([0, *generator.geometric(0.1, sequences) - 1])
    scores = generator.normal(size=(int(offsets[-1]), labels))
    transitions = generator.normal(size=(labels, labels))
    if whole:
        scores, transitions = np.rint(scores), np.rint(transitions)
    found = chains.viterbi(scores, offsets, transitions)
    assert found.tolist() == expected(scores, offsets, transitions)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_no_other_path_is_better(data: st.DataObject) -> None:
    labels = data.draw(st.integers(1, 3))
    length = data.draw(st.integers(1, 5))
    numbers = st.floats(-50, 50)
    scores = data.draw(arrays(float, (length, labels), elements=numbers))
    transitions = data.draw(arrays(float, (labels, labels), elements=numbers))

    def worth(path: tuple[int, ...]) -> float:
        steps = sum(transitions[a, b] for a, b in itertools.pairwise(path))
        return float(steps + sum(scores[place, label] for place, label in enumerate(path)))

    found = tuple(chains.viterbi(scores, np.array([0, length]), transitions).tolist())
    best = max(worth(path) for path in itertools.product(range(labels), repeat=length))
    assert worth(found) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("length", [63, 64, 65, 1000])
@pytest.mark.parametrize("stickiness", [-4.0, 0.0, 0.3, 4.0, 40.0])
@pytest.mark.parametrize("whole", [False, True], ids=["any", "with-ties"])
def test_long_sequences_of_two_labels(length: int, stickiness: float, whole: bool) -> None:
    generator = np.random.default_rng(length)
    scores = generator.normal(size=(length, 2)) * 2
    transitions = np.eye(2) * stickiness + generator.normal(size=(2, 2))
    if whole:
        scores, transitions = np.rint(scores), np.rint(transitions)
    offsets = np.array([0, length])
    found = chains.viterbi(scores, offsets, transitions)
    assert found.tolist() == expected_of_two(scores, transitions)
    among_others = np.array([0, 0, length, length])
    assert chains.viterbi(scores, among_others, transitions).tolist() == found.tolist()


def expected_of_two(scores: Scores, transitions: Scores) -> list[int]:
    """The best labels by differences alone, one item after the other."""
    (stay, leave), (enter, keep) = transitions.tolist()
    gains = (scores[:, 1] - scores[:, 0]).tolist()
    leads = gains[:1]
    for gain in gains[1:]:
        lead = leads[-1]
        leads.append(max(lead + keep, leave) - max(lead + enter, stay) + gain)
    path = [int(leads[-1] > 0)]
    for lead in leads[-2::-1]:
        path.append(int(lead > (leave - keep if path[-1] else stay - enter)))
    return path[::-1]


def test_labels_settle_at_once_or_are_found_one_after_the_other() -> None:
    generator = np.random.default_rng(8)
    gains = generator.normal(size=500)
    weak, strong = np.eye(2) * 0.1, np.eye(2) * 1000
    assert chains._settled(gains, weak) is not None
    assert chains._settled(gains, strong) is None
    scores = np.stack([np.zeros(500), gains], axis=1)
    for transitions in (weak, strong):
        found = chains.viterbi(scores, np.array([0, 500]), transitions)
        assert found.tolist() == expected_of_two(scores, transitions)
        assert found.dtype == np.int64


def test_many_sequences_in_steps_of_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    offsets = np.cumsum([0, *generator.integers(0, 9, 200)])
    scores = generator.normal(size=(int(offsets[-1]), 4))
    transitions = generator.normal(size=(4, 4))
    whole = chains.viterbi(scores, offsets, transitions)
    monkeypatch.setattr(chains, "_LOCKSTEP_NUMBERS", 16 * 20)
    assert chains.viterbi(scores, offsets, transitions).tolist() == whole.tolist()


def test_inputs_are_left_as_they_are() -> None:
    generator = np.random.default_rng(6)
    scores = generator.normal(size=(500, 3))
    before = scores.copy()
    offsets = np.arange(0, 501, 5)
    transitions = np.eye(3)
    path = chains.viterbi(scores, offsets, transitions)
    chains.probabilities(scores, offsets, transitions, path, np.arange(500))
    assert (scores == before).all()
    assert (transitions == np.eye(3)).all()


def test_nothing_has_no_labels() -> None:
    assert chains.viterbi(np.zeros((0, 2)), np.array([0]), np.eye(2)).tolist() == []
    assert chains.viterbi(np.zeros((0, 2)), np.array([0, 0, 0]), np.eye(2)).tolist() == []


def test_probabilities_are_conditional_on_the_neighbours() -> None:
    generator = np.random.default_rng(7)
    scores, transitions = generator.normal(size=(4, 3)), generator.normal(size=(3, 3))
    offsets = np.array([0, 3, 4])
    path = chains.viterbi(scores, offsets, transitions)
    found = chains.probabilities(scores, offsets, transitions, path, np.arange(4))

    def weight(place: int, label: int) -> float:
        total = scores[place, label]
        if place in (1, 2):
            total += transitions[path[place - 1], label]
        if place in (0, 1):
            total += transitions[label, path[place + 1]]
        return float(np.exp(total))

    for place in range(4):
        share = weight(place, int(path[place])) / sum(weight(place, label) for label in range(3))
        assert found[place] == pytest.approx(share)


def test_huge_scores_do_not_overflow() -> None:
    scores = np.array([[1e300, -1e300], [0.0, 1e300]])
    path = chains.viterbi(scores, np.array([0, 2]), np.zeros((2, 2)))
    found = chains.probabilities(scores, np.array([0, 2]), np.zeros((2, 2)), path, np.arange(2))
    assert path.tolist() == [0, 1]
    assert found.tolist() == [1.0, 1.0]


def by_enumeration(
    scores: Scores, transitions: Scores, labels: tuple[int, ...], first: int, joins: chains.Flags
) -> float:
    """The share of labellings in which items have these labels and the field is no longer."""
    stop = first + len(labels)
    total = fitting = 0.0
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        steps = sum(transitions[a, b] for a, b in itertools.pairwise(path))
        weight = np.exp(steps + sum(scores[place, label] for place, label in enumerate(path)))
        total += weight
        if (
            path[first:stop] == labels
            and not (first and joins[path[first - 1], labels[0]])
            and not (stop < len(path) and joins[labels[-1], path[stop]])
        ):
            fitting += weight
    return float(fitting / total)


@pytest.mark.parametrize("labels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_fields_are_as_probable_as_all_labellings_say(labels: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    offsets = np.array([0, 3, 3, 8, 9])
    scores = generator.normal(size=(9, labels)) * 2
    transitions = generator.normal(size=(labels, labels)) * 2
    joins = generator.random((labels, labels)) < 0.4
    path = generator.integers(0, labels, 9)
    spans = np.array([[0, 3], [1, 2], [3, 5], [4, 8], [6, 7], [7, 8], [8, 9]])
    found = chains.span_probabilities(scores, offsets, transitions, path, spans, joins)
    for (first, stop), probability in zip(spans.tolist(), found, strict=True):
        start, end = next(pair for pair in ((0, 3), (3, 8), (8, 9)) if first < pair[1])
        own = scores[start:end]
        wanted = by_enumeration(
            own, transitions, tuple(path[first:stop].tolist()), first - start, joins
        )
        assert probability == pytest.approx(wanted, abs=1e-12)
    some = chains.span_probabilities(scores, offsets, transitions, path, spans[4:5], joins)
    assert some == pytest.approx(found[4:5])


@pytest.mark.parametrize("length", [5, 70])
def test_every_item_is_in_exactly_one_run(length: int) -> None:
    generator = np.random.default_rng(length)
    scores, transitions = generator.normal(size=(length, 2)), generator.normal(size=(2, 2))
    total = 0.0
    for first, stop in itertools.product(range(4), range(4, length + 1)):
        for label in (0, 1):
            total += chains.span_probabilities(
                scores,
                np.array([0, length]),
                transitions,
                np.full(length, label),
                np.array([[first, stop]]),
                np.eye(2, dtype=bool),
            )[0]
    assert total == pytest.approx(1)


@pytest.mark.parametrize("length", [64, 65, 80, 81, 82, 300])
@pytest.mark.parametrize("labels", [1, 2, 5])
@pytest.mark.parametrize("size", [0.1, 30.0])
def test_pieces_of_a_long_sequence_are_put_together(
    length: int, labels: int, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(length + labels)
    scores = generator.normal(size=(length + 4, labels)) * size
    transitions = generator.normal(size=(labels, labels)) * 5
    starts, stops = np.array([3]), np.array([length + 3])
    found = chains._messages(scores, starts, stops, transitions)
    monkeypatch.setattr(chains, "_LOCKSTEP_NUMBERS", 3 * labels**3)
    assert found == pytest.approx(chains._messages(scores, starts, stops, transitions))
    monkeypatch.setattr(chains, "_LONG", length + 1)
    assert found == pytest.approx(
        chains._messages(scores, starts, stops, transitions), rel=1e-9, abs=1e-9
    )


def test_probable_fields_do_not_overflow() -> None:
    for length in (3, 100):
        scores = np.zeros((length, 2))
        scores[1] = [-1e300, 1e300]
        path = np.zeros(length, dtype=np.int64)
        path[1] = 1
        spans, joins = np.array([[0, 1], [1, 2], [2, length]]), np.zeros((2, 2), dtype=bool)
        found = chains.span_probabilities(
            scores, np.array([0, length]), np.zeros((2, 2)), path, spans, joins
        )
        assert found == pytest.approx([0.5, 1.0, 0.5 ** (length - 2)])
        assert (found <= 1).all()


def test_many_sequences_have_the_same_probabilities_in_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(5)
    offsets = np.cumsum([0, *generator.integers(1, 9, 200)])
    scores = generator.normal(size=(int(offsets[-1]), 4))
    before = scores.copy()
    transitions = generator.normal(size=(4, 4))
    path = chains.viterbi(scores, offsets, transitions)
    spans = np.stack([offsets[:-1:3], offsets[1::3]], axis=1)
    joins = np.eye(4, dtype=bool)
    whole = chains.span_probabilities(scores, offsets, transitions, path, spans, joins)
    monkeypatch.setattr(chains, "_LOCKSTEP_NUMBERS", 16 * 20)
    again = chains.span_probabilities(scores, offsets, transitions, path, spans, joins)
    assert again == pytest.approx(whole)
    assert ((whole > 0) & (whole <= 1)).all()
    assert (scores == before).all()
