from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushdoc.hashing import MAX_ROWS, FeatureScheme, features
from hushdoc_training.crf.frequency import frequent


def corpus(count: int) -> tuple[list[list[str]], np.ndarray]:
    """Two sentences each, of common words and of a name that no other record has."""
    chance = np.random.default_rng(0)
    sentences = []
    for record in range(count):
        for _ in range(2):
            words = [f"w{number}" for number in chance.integers(60, size=12)]
            sentences.append([*words[:6], f"name{record}", *words[6:]])
    return sentences, np.arange(0, 2 * count + 1, 2)


@pytest.mark.parametrize("rows", [97, 1009, 60_000, 2**21])
def test_exactly_the_frequent_features_stay(rows: int) -> None:
    sentences, records = corpus(30)
    scheme = FeatureScheme(rows=rows, seed=11)
    fine = features(sentences, replace(scheme, rows=MAX_ROWS))
    holders: dict[int, set[int]] = {}
    for item in range(len(sentences)):
        for feature in fine.rows_of(item).tolist():
            holders.setdefault(feature, set()).add(item // 2)
    found = frequent(sentences, scheme, records, least_records=3)
    whole = features(sentences, scheme)
    wrong = 0
    for item in range(len(sentences)):
        often = [f for f in fine.rows_of(item).tolist() if len(holders[f]) >= 3]
        expected = {((2 * feature + 2) * rows) >> 32 for feature in often}
        kept = set(found.rows_of(item).tolist())
        assert kept <= set(whole.rows_of(item).tolist())
        wrong += len(kept ^ expected)
    # A feature on the edge of a row may be taken for its neighbour: rows / 2**31 of them.
    assert wrong <= 2 + len(fine.indices) * rows / 2**29


def test_what_one_record_alone_has_is_gone_even_in_a_full_table() -> None:
    sentences, records = corpus(200)
    scheme = FeatureScheme(rows=500, bigrams=False, skip_grams=False)
    found = frequent(sentences, scheme, records, least_records=2)
    for item, words in enumerate(sentences):
        [name] = features([[word for word in words if word.startswith("name")]], scheme).indices
        others = features([[word for word in words if word.startswith("w")]], scheme).indices
        assert name in found.rows_of(item) or name not in others
        assert name in others or name not in found.rows_of(item)


def test_a_feature_that_comes_often_in_one_record_is_not_frequent() -> None:
    scheme = FeatureScheme(bigrams=False, skip_grams=False)
    sentences = [["a"], ["a"], ["a", "b"], ["b"]]
    found = frequent(sentences, scheme, np.array([0, 3, 4]), least_records=2)
    assert found.indices.tolist() == features([["b"], ["b"]], scheme).indices.tolist()
    assert found.offsets.tolist() == [0, 0, 0, 1, 2]


def test_nothing_is_dropped_where_one_record_is_enough() -> None:
    sentences, records = corpus(10)
    for scheme in (FeatureScheme(), FeatureScheme(level="token", rows=5000)):
        tokens = np.cumsum([0, *map(len, sentences)])
        ends = records if scheme.level == "sentence" else tokens[records]
        found = frequent(sentences, scheme, ends, least_records=1)
        whole = features(sentences, scheme)
        assert found.indices.tolist() == whole.indices.tolist()
        assert found.offsets.tolist() == whole.offsets.tolist()
