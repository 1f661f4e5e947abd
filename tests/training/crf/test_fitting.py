from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

from hushdoc import hashing
from hushdoc.errors import AnnotationError, OutputWriteError
from hushdoc.hashing import Features, FeatureScheme
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training.crf import fitting

WORDS = [
    "the", "party", "shall", "pay", "a", "fee", "under", "laws", "of", "Utah", "Ohio", "notice",
    "term", "fees", "delivery",
]  # fmt: skip
NAMES = ("O", "law", "fee")


def documents(count: int, seed: int = 0) -> tuple[list[list[str]], list[int], list[int]]:
    """Sentences of invented contracts, their labels, and where each document ends."""
    generator = np.random.default_rng(seed)
    sentences, labels, ends = [], [], [0]
    for _ in range(count):
        for _ in range(12):
            label = int(generator.choice(3, p=[0.7, 0.15, 0.15]))
            words = [WORDS[place] for place in generator.integers(len(WORDS), size=8)]
            words[2:4] = (["terms", "end"], ["laws", "govern"], ["fee", "due"])[label]
            sentences.append(words)
            labels.append(label)
        ends.append(len(labels))
    return sentences, labels, ends


def fitted(
    count: int = 20, *, scheme: FeatureScheme | None = None, **settings: object
) -> tuple[fitting.FittedTable, Features]:
    scheme = scheme or FeatureScheme(rows=5003)
    sentences, labels, ends = documents(count)
    features = hashing.features(sentences, scheme)
    table = fitting.fit(
        features,
        np.array(labels),
        np.array(ends),
        scheme=scheme,
        names=NAMES,
        **{"iterations": 8, **settings},  # type: ignore[arg-type]
    )
    return table, features


class TestFit:
    @pytest.mark.parametrize("algorithm", fitting.ALGORITHMS)
    def test_it_learns(self, algorithm: str) -> None:
        scheme = FeatureScheme(rows=5003)
        table, _ = fitted(algorithm=algorithm, iterations=20)
        sentences, labels, ends = documents(10, seed=1)
        learned = HashedTable(
            weights=table.unfilled(), transitions=table.transitions.astype(np.float64)
        )
        scores = item_scores(hashing.features(sentences, scheme), learned)
        found = viterbi(scores, np.array(ends), learned.transitions)
        assert (found == labels).mean() > 0.95

    def test_shapes_and_what_is_missing(self) -> None:
        table, features = fitted()
        assert table.weights.shape == (5003, 3)
        assert table.labels == NAMES
        assert table.seen.any(axis=1).sum() == len(np.unique(features.indices))
        assert not (table.genuine & ~table.seen.any(axis=1)).any()
        assert 0 < table.genuine.sum() < 5003
        assert np.isnan(table.weights[~table.seen]).all()
        assert table.counts is not None
        assert table.counts.sum() == len(features.indices)
        assert np.isfinite(table.transitions).all()
        assert np.isfinite(table.unfilled()).all()

    def test_what_occurs_in_few_places_leaves_no_weight(self) -> None:
        table, features = fitted(least_items=5)
        kept = np.bincount(features.indices, minlength=5003) >= 5
        assert 0 < kept.sum() < len(np.unique(features.indices))
        assert np.array_equal(table.seen.any(axis=1), kept)
        assert not (table.genuine & ~kept).any()
        assert (table.genuine & kept).any()

    def test_one_document_is_enough(self) -> None:
        table, _ = fitted(1)
        assert table.genuine.any()

    def test_items_without_features_and_documents_without_items(self) -> None:
        scheme = FeatureScheme(rows=100)
        features = hashing.features([["law"], [], ["fee"]], scheme)
        table = fitting.fit(
            features,
            np.array([1, 0, 0]),
            np.array([0, 0, 3, 3]),
            scheme=scheme,
            names=("O", "law"),
            iterations=3,
        )
        assert table.genuine.any()


@pytest.mark.parametrize("most_bytes", [0, 40, 4096])
def test_a_model_that_is_cut_off_is_an_error(most_bytes: int) -> None:
    """As on a full disk, of which CRFsuite says nothing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        with pytest.raises(OutputWriteError, match="TMPDIR"):
            fitted()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_occurrences_are_pairs_of_rows_and_labels() -> None:
    features = Features(indices=np.array([0, 2, 2], np.int32), offsets=np.array([0, 2, 2, 3]))
    seen = fitting.occurrences(features, np.array([1, 0, 0]), rows=4, columns=2)
    assert np.argwhere(seen).tolist() == [[0, 1], [2, 0], [2, 1]]


def test_a_weight_that_occurred_and_stayed_zero_is_realized() -> None:
    table, _ = fitted(algorithm="pa")
    unlearned = table.seen & np.isnan(table.weights)
    assert unlearned.any()
    assert not table.realized[unlearned].any()
    assert np.array_equal(np.isnan(table.realized), ~table.seen)


class TestRefused:
    scheme = FeatureScheme(rows=100)

    def fit(self, labels: list[int], ends: list[int] | None = None) -> None:
        features = hashing.features([["a"], ["b"]], self.scheme)
        fitting.fit(
            features,
            np.array(labels, dtype=np.int64),
            np.array(ends or [0, 2]),
            scheme=self.scheme,
            names=("O", "law"),
        )

    @pytest.mark.parametrize(
        ("labels", "ends", "says"),
        [
            ([0, 0], None, "all have the label 'O'"),
            ([0], None, "one label for each item"),
            ([0, 1], [0, 1], "one label for each item"),
            ([0, 2], None, "Name every label"),
        ],
    )
    def test_labels_that_do_not_fit(
        self, labels: list[int], ends: list[int] | None, says: str
    ) -> None:
        with pytest.raises(AnnotationError, match=says):
            self.fit(labels, ends)

    def test_nothing_at_all(self) -> None:
        with pytest.raises(AnnotationError, match="there is none"):
            fitting.fit(
                hashing.features([], self.scheme),
                np.zeros(0, np.int64),
                np.array([0]),
                scheme=self.scheme,
                names=("O", "law"),
            )

    def test_an_unknown_algorithm(self) -> None:
        with pytest.raises(ValueError, match="sgd"):
            fitted(algorithm="sgd")

    def test_a_file_of_another_kind(self) -> None:
        with pytest.raises(ValueError, match="lCRF"):
            fitting.stored(b"no model", rows=3, labels=2)


class TestStored:
    def test_it_is_what_crfsuite_prints(self, tmp_path: Path) -> None:
        generator = np.random.default_rng(0)
        trainer = pycrfsuite.Trainer(algorithm="pa", verbose=False)
        for _ in range(30):
            items = [[str(row) for row in generator.integers(500, size=6)] for _ in range(9)]
            trainer.append(items, [str(label) for label in generator.integers(4, size=9)])
        trainer.set_params({"max_iterations": 3})
        path = tmp_path / "model"
        trainer.train(str(path))
        weights, transitions = fitting.stored(path.read_bytes(), rows=500, labels=4)
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        info = tagger.info()
        assert np.count_nonzero(~np.isnan(weights)) == len(info.state_features)
        for (row, label), weight in info.state_features.items():
            assert weights[int(row), int(label)] == pytest.approx(weight, abs=1e-6)
        assert np.count_nonzero(~np.isnan(transitions)) == len(info.transitions)
        for (before, after), weight in info.transitions.items():
            assert transitions[int(before), int(after)] == pytest.approx(weight, abs=1e-6)

    def test_two_labels_cancel_where_both_have_a_weight(self) -> None:
        # Why the paper's fill can be seen through, and why centring costs nothing.
        scheme = FeatureScheme(rows=5003)
        sentences, labels, ends = documents(20)
        table = fitting.fit(
            hashing.features(sentences, scheme),
            np.minimum(labels, 1),
            np.array(ends),
            scheme=scheme,
            names=("O", "law"),
            iterations=5,
        )
        complete = table.weights[~np.isnan(table.weights).any(axis=1)]
        assert len(complete) > 100
        assert (np.abs(complete.sum(axis=1)) < 1e-6 * np.abs(complete).max()).mean() > 0.95
