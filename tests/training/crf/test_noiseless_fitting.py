"""Fitting without noise is private fitting with none, but for the rows that it silences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from small_tables import FreePlan, clauses, features_of

from hushdoc.errors import AnnotationError
from hushdoc.hashing import Features
from hushdoc_training.crf import noiseless_fitting, private_fitting
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.crf.noiseless_fitting import hard_thresholded
from hushdoc_training.crf.private_fitting import Settings, Start
from hushdoc_training.randomness.secret_stream import SecretStream

ROWS = 1024
TAGS = ("O", "TERM")
START = Start(tags=TAGS, scales=np.ones(ROWS), transitions=private_fitting.transitions_of(TAGS))


@dataclass(frozen=True, kw_only=True, eq=False)
class Documents:
    features: Features
    labels: np.ndarray
    ends: np.ndarray


def documents(count: int) -> Documents:
    items, labels, ends = clauses(count)
    return Documents(features=features_of(items), labels=np.array(labels), ends=np.array(ends))


def fitted(made: Documents, *, top_features_per_label: int | None, steps: int = 5) -> FittedTable:
    return noiseless_fitting.fit_without_noise(
        made.features,
        made.labels,
        sequences=made.ends,
        records=made.ends,
        start=START,
        settings=Settings(),
        steps=steps,
        top_features_per_label=top_features_per_label,
    )


def test_with_every_row_it_is_private_fitting_without_noise() -> None:
    made = documents(60)
    private = private_fitting.fit_private(
        made.features,
        made.labels,
        sequences=made.ends,
        records=made.ends,
        start=START,
        plan=FreePlan(expected_records=60, steps=5),
        settings=Settings(),
        stream=SecretStream(),
    )
    table = fitted(made, top_features_per_label=None)
    read = table.genuine
    assert read.sum() == len(np.unique(made.features.indices))
    assert np.array_equal(table.weights[read], private.weights[read])
    assert np.array_equal(table.transitions, private.transitions)
    assert not private.weights[~read].any()
    assert np.array_equal(table.seen.any(axis=1), read)


def test_few_rows_keep_a_weight_and_they_are_those_that_matter() -> None:
    table = fitted(documents(60), top_features_per_label=7, steps=12)
    loud = np.flatnonzero(np.nan_to_num(table.weights).any(axis=1))
    assert len(loud) == 7
    assert {0, 1} <= {*loud.tolist()}
    assert table.weights[0, 1] > table.weights[0, 0]
    # A silenced row was learned from all the same, and is no gap that the fill would have to close.
    assert table.genuine.sum() > 900


def test_more_rows_than_there_are_silence_none() -> None:
    made = documents(20)
    assert np.array_equal(
        fitted(made, top_features_per_label=5000).weights,
        fitted(made, top_features_per_label=None).weights,
        equal_nan=True,
    )


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_for_each_label_the_least_is_silenced(kept: int) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 3)) + 5
    made = hard_thresholded(rows, kept)
    said = rows - rows.mean(axis=1, keepdims=True)
    stays = made != 0
    assert (stays.sum(axis=0) == kept).all()
    assert np.array_equal(made[stays], said[stays])
    for label in range(3):
        loud, quiet = np.abs(said[stays[:, label], label]), np.abs(said[~stays[:, label], label])
        assert not kept or loud.min() >= quiet.max()


@pytest.mark.parametrize("kept", [6, 100])
def test_where_none_is_silenced_rows_stay_as_they_are(kept: int) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 3))
    assert np.array_equal(hard_thresholded(rows, kept), rows)


def test_of_two_labels_both_lose_the_same_rows() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 2))
    rows[:, 0] = -rows[:, 1]
    made = hard_thresholded(rows, 7)
    assert np.array_equal(made[:, 0], -made[:, 1])
    assert made.any(axis=1).sum() == 7


def test_one_label_alone_is_nothing_to_learn() -> None:
    made = documents(2)
    nothing = Documents(features=made.features, labels=np.zeros(40, np.int64), ends=made.ends)
    with pytest.raises(AnnotationError, match="two labels"):
        fitted(nothing, top_features_per_label=None)
