from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme, features
from hushdoc_training.crf import filling, linear
from hushdoc_training.randomness.secret_stream import SecretStream

ROWS = 4099
TOPICS = {"law": "court judge statute appeal", "sea": "harbour sail anchor tide",
          "farm": "barley tractor meadow plough"}  # fmt: skip


def messages(count: int, kinds: int, seed: int) -> tuple[list[str], list[str]]:
    generator = np.random.default_rng(seed)
    names = list(TOPICS)[:kinds]
    labels = [names[number] for number in generator.integers(kinds, size=count)]
    texts = [
        " ".join(
            [
                *generator.choice(TOPICS[label].split(), 5),
                *(f"word{number}" for number in generator.integers(300, size=5)),
            ]
        )
        for label in labels
    ]
    return texts, labels


def accuracy(model: linear.LinearModel, kinds: int) -> float:
    texts, labels = messages(200, kinds, seed=9)
    found = model.predict(linear.hashed(texts, ROWS))
    return float(np.mean([a == b for a, b in zip(found, labels, strict=True)]))


def fitted(kinds: int, *, min_document_frequency: int) -> linear.LinearModel:
    texts, labels = messages(400, kinds, seed=1)
    return linear.fit(
        linear.hashed(texts, ROWS, min_document_frequency=min_document_frequency), labels
    )


@pytest.mark.parametrize("kinds", [2, 3])
@pytest.mark.parametrize(
    "fill",
    [
        partial(filling.paper_fill, family="normals"),
        partial(filling.paper_fill, family="joint-normal"),
        partial(filling.noisy_fill, noise=0.5),
    ],
)
def test_every_coefficient_is_filled_and_the_model_still_knows(kinds: int, fill: object) -> None:
    model = fitted(kinds, min_document_frequency=3)
    missing = np.isnan(model.weights).all(axis=1)
    assert 0 < missing.sum() < ROWS
    assert accuracy(model, kinds) > 0.95
    filled = model.filled(
        partial(fill, stream=SecretStream(key=bytes(32)))  # type: ignore[call-overload]
    )
    assert np.isfinite(filled.weights).all()
    assert filled.weights.any(axis=1).all()
    assert accuracy(filled, kinds) > 0.9


def test_it_answers_as_scikit_learn_does() -> None:
    from sklearn.linear_model import SGDClassifier

    for kinds in (2, 3):
        texts, labels = messages(300, kinds, seed=2)
        matrix = linear.hashed(texts, ROWS)
        peer = SGDClassifier(random_state=0).fit(matrix, labels)
        model = linear.from_sklearn(peer, np.arange(ROWS), ROWS)
        assert model.predict(matrix) == peer.predict(matrix).tolist()


@pytest.mark.parametrize("rows", [64, ROWS])
def test_rare_words_leave_nothing_even_where_they_share_rows(rows: int) -> None:
    texts, labels = messages(300, 2, seed=4)
    rare = [f"{text} onlyhere{place}" for place, text in enumerate(texts)]
    plain = linear.hashed(texts, rows, min_document_frequency=10)
    found = linear.hashed(rare, rows, min_document_frequency=10)
    assert (plain != found).nnz == 0
    # In 64 rows each of them shares its row with words that stay.
    assert (linear.hashed(texts, rows) != linear.hashed(rare, rows)).nnz > 0
    models = [linear.fit(matrix, labels) for matrix in (plain, found)]
    assert np.array_equal(models[0].weights, models[1].weights, equal_nan=True)


def test_one_class_is_refused() -> None:
    matrix = linear.hashed(["a b", "c d"], ROWS)
    with pytest.raises(AnnotationError, match="two classes"):
        linear.fit(matrix, ["x", "x"])
    with pytest.raises(AnnotationError, match="expected one each"):
        linear.fit(matrix, ["x", "y", "y"])


def counts(texts: list[str]) -> Any:
    scheme = FeatureScheme(rows=ROWS, bigrams=False, skip_grams=False)
    return linear.counted(features([text.split() for text in texts], scheme), ROWS)


@pytest.mark.parametrize("kinds", [2, 3])
def test_learning_on_corrects_what_was_wrong_and_leaves_what_was_right(kinds: int) -> None:
    names = list(TOPICS)[:kinds]
    texts, labels = messages(400, kinds, seed=1)
    classifier = linear.support_vectors(intercept=False)
    first = linear.fit(counts(texts), labels, classifier=classifier)
    weights = np.nan_to_num(first.weights, nan=0.0)
    numbers = np.array([list(first.classes).index(label) for label in labels])
    found = linear.amounts(counts(texts), numbers, weights)
    assert np.isnan(found[~counts(texts).getnnz(axis=0).astype(bool)]).all()
    # From now on two of the classes have changed their names.
    swapped = np.where(numbers < 2, 1 - numbers, numbers)
    more = linear.amounts(counts(texts), swapped, weights)
    assert np.nanmax(np.abs(more)) > 5 * np.nanmax(np.abs(found), initial=1e-9)
    scores = counts(texts) @ (weights + np.nan_to_num(more, nan=0.0))
    given = (scores[:, 0] > 0).astype(int) if kinds == 2 else scores.argmax(axis=1)
    assert (given == swapped).mean() > 0.95
    assert len(names) == len(first.classes)


def test_a_document_far_enough_from_the_border_changes_nothing() -> None:
    weights = np.zeros((ROWS, 2), dtype=np.float32)
    matrix = counts(["tide", "sail"])
    rows = matrix.indices
    weights[rows[0]] = 1.5, -1.5
    found = linear.amounts(matrix, np.array([0, 0]), weights)
    assert np.isnan(found[rows[0]]).all()
    assert found[rows[1]].tolist() == [1.0, -1.0]
    assert np.isnan(found).all(axis=1).sum() == ROWS - 1
