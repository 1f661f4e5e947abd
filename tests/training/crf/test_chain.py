from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_tables import features_of

from hushdoc_training.crf import chain
from hushdoc_training.crf.chain import PIECE


def loss(
    scores: chain.Floats, transitions: chain.Floats, labels: list[int], sequences: list[int]
) -> float:
    """The negative log-likelihood, by listing every sequence of labels."""
    total = 0.0
    for first, stop in itertools.pairwise(sequences):
        own = scores[first:stop]

        def score(path: tuple[int, ...], own: chain.Floats = own) -> float:
            steps = sum(transitions[a, b] for a, b in itertools.pairwise(path))
            return float(sum(own[i, y] for i, y in enumerate(path)) + steps)

        paths = itertools.product(range(len(transitions)), repeat=stop - first)
        total += np.log(sum(np.exp(score(path)) for path in paths))
        total -= score(tuple(labels[first:stop]))
    return total


@pytest.mark.parametrize("num_labels", [1, 2, 3])
def test_gradient_is_the_derivative_of_the_likelihood(num_labels: int) -> None:
    chance = np.random.default_rng(num_labels)
    items = [[0, 2], [1], [], [2, 3], [0, 1, 3]]
    labels = chance.integers(num_labels, size=5)
    sequences = [0, 2, 5]
    data = chain.record_set(
        features_of(items), labels, sequences=np.array(sequences), records=np.array([0, 5])
    )
    weights = chance.normal(size=(4, num_labels))
    transitions = chance.normal(size=(num_labels, num_labels))

    def value(weights: chain.Floats, transitions: chain.Floats) -> float:
        scores = np.array([weights[item].sum(axis=0) for item in items])
        return loss(scores, transitions, labels.tolist(), sequences)

    [found] = chain.gradients(data.records, [weights], transitions, emphasis=np.ones(num_labels))
    small = 1e-6
    for place in np.ndindex(*weights.shape):
        moved = weights.copy()
        moved[place] += small
        slope = (value(moved, transitions) - value(weights, transitions)) / small
        assert found.rows[place] == pytest.approx(slope, abs=1e-4)
    for place in np.ndindex(*transitions.shape):
        moved = transitions.copy()
        moved[place] += small
        slope = (value(weights, moved) - value(weights, transitions)) / small
        assert found.transitions[place] == pytest.approx(slope, abs=1e-4)


def test_records_do_not_change_one_another() -> None:
    chance = np.random.default_rng(0)
    items = [[int(row)] for row in chance.integers(6, size=40)]
    data = chain.record_set(
        features_of(items),
        chance.integers(2, size=40),
        sequences=np.array([0, 5, 20, 40]),
        records=np.array([0, 20, 40]),
    )
    weights = chance.normal(size=(len(data.rows), 2))
    own = [weights[record.rows] for record in data.records]
    together = chain.gradients(data.records, own, np.eye(2), emphasis=np.ones(2))
    for record, part, found in zip(data.records, own, together, strict=True):
        [alone] = chain.gradients([record], [part], np.eye(2), emphasis=np.ones(2))
        np.testing.assert_allclose(found.rows, alone.rows, atol=1e-12)
        np.testing.assert_allclose(found.transitions, alone.transitions, atol=1e-12)


def test_long_sequences_are_cut_and_short_ones_kept() -> None:
    items = [[0]] * (PIECE + 3)
    data = chain.record_set(
        features_of(items),
        np.zeros(len(items), dtype=np.int64),
        sequences=np.array([0, 3, len(items)]),
        records=np.array([0, len(items)]),
    )
    assert data.records[0].pieces.tolist() == [0, 3, PIECE + 3]
    longer = chain.record_set(
        features_of(items),
        np.zeros(len(items), dtype=np.int64),
        sequences=np.array([0, len(items)]),
        records=np.array([0, len(items)]),
    )
    assert longer.records[0].pieces.tolist() == [0, PIECE, PIECE + 3]


def test_emphasis_counts_items_by_their_label() -> None:
    data = chain.record_set(
        features_of([[0], [1]]),
        np.array([0, 1]),
        sequences=np.array([0, 1, 2]),
        records=np.array([0, 2]),
    )
    [found] = chain.gradients(
        data.records, [np.zeros((2, 2))], np.zeros((2, 2)), emphasis=np.array([1.0, 3.0])
    )
    np.testing.assert_allclose(found.rows, [[-0.5, 0.5], [1.5, -1.5]])


def test_records_without_items_have_no_gradient() -> None:
    data = chain.record_set(
        features_of([[0]]),
        np.array([1]),
        sequences=np.array([0, 0, 1]),
        records=np.array([0, 0, 1]),
    )
    empty, _ = data.records
    [found] = chain.gradients([empty], [np.zeros((0, 2))], np.eye(2), emphasis=np.ones(2))
    assert found.rows.shape == (0, 2)
    assert not found.transitions.any()


def test_records_of_half_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="whole sequences"):
        chain.record_set(
            features_of([[0], [1]]),
            np.array([0, 1]),
            sequences=np.array([0, 2]),
            records=np.array([0, 1, 2]),
        )
    with pytest.raises(ValueError, match="same number"):
        chain.record_set(
            features_of([[0], [1]]),
            np.array([0]),
            sequences=np.array([0, 2]),
            records=np.array([0, 2]),
        )
