"""Scores of items are sums of rows, whatever the table is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from hushdoc import hashing
from hushdoc.errors import ArtifactError
from hushdoc.hashing import Features, FeatureScheme
from hushdoc.runtime.hashed import table as hashed_table
from hushdoc.runtime.hashed.table import (
    HashedTable,
    item_scores,
    lookup_scores,
    read_clusters,
    read_table,
    spread,
)

ROWS = 50


def features_of(*items: list[int]) -> Features:
    rows = [row for item in items for row in item]
    return Features(
        indices=np.array(rows, dtype=np.int32), offsets=np.cumsum([0, *map(len, items)])
    )


def table(kind: str, labels: int) -> HashedTable:
    weights = np.random.default_rng(3).normal(size=(ROWS, labels)) * 9
    weights += 128 if kind == "u1" else 0
    scale = np.linspace(0.01, 0.5, labels, dtype=np.float32) if kind == "u1" else None
    return HashedTable(weights=weights.astype(kind), scale=scale, transitions=np.eye(labels))


def weights_of(table: HashedTable) -> Any:
    if table.scale is None:
        return table.weights.astype(float)
    return (table.weights.astype(float) - 128) * table.scale.astype(float)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "u1"])
@pytest.mark.parametrize("labels", [1, 2, 3, 4, 9])
def test_scores_are_sums_of_rows(kind: str, labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [[3], [], [0, 1, 49], [49], [], list(range(0, 50, 7)), []]
    given = table(kind, labels)
    wanted = [weights_of(given)[item].sum(axis=0) for item in items]
    for most in (1 << 25, 1):
        monkeypatch.setattr(hashed_table, "_GATHERED_BYTES", most * labels * 8)
        found = item_scores(features_of(*items), given)
        assert found.dtype == np.float64
        assert found == pytest.approx(np.array(wanted), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "u1"])
@pytest.mark.parametrize("labels", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("level", hashing.LEVELS)
def test_what_is_looked_up_scores_as_features_do(level: str, kind: str, labels: int) -> None:
    generator = np.random.default_rng(labels)
    sentences = [
        [f"w{number}" for number in generator.integers(0, 30, int(length))]
        for length in generator.integers(0, 9, 40)
    ]
    scheme = FeatureScheme(rows=ROWS, level=level)
    given = table(kind, labels)
    wanted = item_scores(hashing.features(sentences, scheme), given)
    (looked_up,) = hashing.lookups(hashing.hash_words(sentences, scheme), scheme)
    found = lookup_scores(looked_up, given)
    assert found == pytest.approx(wanted, rel=1e-13, abs=1e-12)
    assert kind != "u1" or found.tolist() == wanted.tolist()
    assert len(np.unique(wanted)) > 10


@pytest.mark.parametrize("reference", [0, 1, 2])
def test_the_label_without_a_column_scores_nothing(reference: int) -> None:
    lean = HashedTable(weights=table("f4", 2).weights, transitions=np.eye(3), reference=reference)
    found = item_scores(features_of([1, 2], [], [3]), lean)
    assert (found[:, reference] == 0).all()
    others = np.delete(found, reference, axis=1)
    assert others.tolist() == item_scores(features_of([1, 2], [], [3]), table("f4", 2)).tolist()


def test_items_without_features_score_nothing() -> None:
    assert item_scores(features_of([], []), table("f2", 2)).tolist() == [[0, 0], [0, 0]]
    assert item_scores(features_of(), table("f2", 2)).shape == (0, 2)


def test_rows_beyond_the_table_are_refused() -> None:
    with pytest.raises(ValueError, match="row 50 of 50"):
        item_scores(features_of([50]), table("f2", 2))


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros(4, "f4")},
        {"weights": np.zeros((4, 3), "f4")},
        {"weights": np.zeros((4, 2), "u1")},
        {"weights": np.zeros((4, 2), "i1"), "scale": np.ones(2, "f4")},
        {"scale": np.ones(2, "f4")},
        {"weights": np.ones((4, 2), "u1"), "scale": np.ones(3, "f4")},
        {"weights": np.ones((4, 2), "u1"), "scale": np.array([1, 0], "f4")},
        {"transitions": np.zeros((2, 3))},
        {"reference": 0},
        {"weights": np.zeros((4, 1), "f4"), "reference": 2},
        {"weights": np.zeros((4, 1), "f4"), "reference": -1},
        {"weights": np.zeros((4, 0), "f4"), "transitions": np.zeros((1, 1)), "reference": 0},
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    sound = {"weights": np.zeros((4, 2), "f4"), "transitions": np.zeros((2, 2))}
    assert HashedTable(**sound)
    with pytest.raises(ArtifactError, match="Export it again"):
        HashedTable(**{**sound, **change})


def test_tables_are_read_where_they_stand() -> None:
    parts = {
        "weights": np.arange(8, dtype=np.uint8).reshape(4, 2),
        "scale": np.ones(2, np.float32),
        "transitions": np.eye(2, dtype=np.float32),
    }
    content = memoryview(save(parts, metadata={"a": "b"}))
    found = read_table(content, "weights")
    assert found.weights.tolist() == parts["weights"].tolist()
    assert not found.weights.flags.owndata
    assert found.transitions.dtype == np.float64
    for name in ("table", "transitions"):
        with pytest.raises(ArtifactError):
            read_table(memoryview(save({**parts, "transitions": np.ones(3)})), name)


def test_files_of_other_types_are_refused() -> None:
    with pytest.raises(ArtifactError, match="I64"):
        read_table(memoryview(save({"weights": np.ones((2, 2), "i8")})), "weights")


@pytest.mark.parametrize(
    "parts",
    [
        {"hashes": np.array([3, 1], "u4"), "ids": np.zeros(2, "u2")},
        {"hashes": np.array([1, 3], "u4"), "ids": np.array([0, 2], "u2")},
        {"hashes": np.array([1, 3], "u4")},
    ],
    ids=["unsorted", "cluster-too-high", "no-ids"],
)
def test_clusters_that_can_not_be_searched_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match="clusters"):
        read_clusters(memoryview(save(parts)), FeatureScheme(clusters=2))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "u1"])
@pytest.mark.parametrize("labels", [2, 3, 9])
@pytest.mark.parametrize("left_out", [False, True])
def test_spread_is_that_of_all_pairs_of_labels(
    kind: str, labels: int, left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table(kind, labels)
    weights = weights_of(given)
    if left_out:
        given = HashedTable(
            weights=given.weights,
            scale=given.scale,
            transitions=np.eye(labels + 1),
            reference=1,
        )
        weights = np.insert(weights, 1, 0.0, axis=1)
    columns = range(weights.shape[1])
    pairs = [(weights[:, a] - weights[:, b]) ** 2 for a in columns for b in range(a)]
    wanted = float(np.sqrt(np.mean(pairs)))
    before = given.weights.copy()
    for rows in (1 << 14, 7, 1):
        monkeypatch.setattr(hashed_table, "_SPREAD_ROWS", rows)
        assert spread(given) == pytest.approx(wanted)
    assert (given.weights == before).all()


def test_rows_are_counted_once_for_an_item() -> None:
    generator = np.random.default_rng(2)
    sentences = [
        [f"w{number}" for number in generator.integers(0, 9, int(length))]
        for length in generator.integers(0, 12, 50)
    ]
    scheme = FeatureScheme(rows=ROWS)
    (found,) = hashing.lookups(hashing.hash_words(sentences, scheme), scheme)
    assert found.num_features == len(hashing.features(sentences, scheme).indices)
    assert list(hashing.lookups(hashing.hash_words([], scheme), scheme)) == []
