from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme
from hushdoc.runtime.hashed import class_scoring
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.class_scoring import is_classifier
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training.crf import chain, whole_texts
from hushdoc_training.crf.corpus import Corpus

SCHEME = FeatureScheme(rows=401, bigrams=False, skip_grams=False)
NAMES = ("farm", "law", "sea")


@dataclass(frozen=True)
class Told:
    text: str
    label: str


def texts(count: int = 30) -> list[Told]:
    chance = np.random.default_rng(3)
    made = []
    for number in range(count):
        sentences = chance.integers(1, 9)
        words = chance.integers(60, size=(sentences, 6))
        text = "\n\n".join(" ".join(f"w{word}" for word in row) for row in words)
        made.append(Told(text, NAMES[number % 3]))
    return made


def corpus() -> Corpus:
    return whole_texts.class_corpus(texts(), NAMES)


def test_decoding_gives_a_text_the_one_class_of_the_largest_sum() -> None:
    made = corpus()
    assert len(made.sentences) > 2 * len(made.owners)
    weights = np.random.default_rng(1).normal(size=(SCHEME.rows, 3)).astype(np.float32) * 30
    features = made.features(SCHEME)
    moves = whole_texts.one_class(NAMES).astype(np.float64)
    table = HashedTable(weights=weights, transitions=moves)
    decoded = viterbi(item_scores(features, table), made.documents, moves)
    sums = item_scores(whole_texts.whole(features, made), table)
    assert np.array_equal(decoded, np.repeat(sums.argmax(axis=1), np.diff(made.documents)))
    assert len(set(decoded.tolist())) == 3


def test_training_sees_the_same_sum_as_decoding() -> None:
    made = corpus()
    features = made.features(SCHEME)
    whole = whole_texts.whole(features, made)
    each = np.arange(whole.num_items + 1)
    data = chain.record_set(whole, whole_texts.classes(made), sequences=each, records=each)
    weights = np.random.default_rng(1).normal(size=(SCHEME.rows, 3)).astype(np.float32)
    seen = [chain.item_scores(r, weights[data.rows[r.rows]].astype(float)) for r in data.records]
    table = HashedTable(weights=weights, transitions=np.zeros((3, 3)))
    assert np.allclose(np.concatenate(seen), item_scores(whole, table))
    # Where neighbours may not differ, the gradient of a chain is that of the whole text.
    chained = chain.record_set(
        features, made.labels, sequences=made.documents, records=made.documents
    )
    moves = whole_texts.one_class(NAMES).astype(np.float64)
    found = [
        chain.gradients(
            records.records,
            [weights[records.rows[r.rows]].astype(float) for r in records.records],
            transitions,
            emphasis=np.ones(3),
        )
        for records, transitions in ((data, np.zeros((3, 3))), (chained, moves))
    ]
    for one, other in zip(*found, strict=True):
        assert np.allclose(one.rows, other.rows, atol=1e-9)


def test_texts_without_words_and_of_other_kinds_are_left_out() -> None:
    told = [Told("a b", "law"), Told(" \n", "sea"), Told("c", "other"), Told("d.\n\ne", "sea")]
    made = whole_texts.class_corpus(told, NAMES)
    assert whole_texts.classes(made).tolist() == [1, 2]
    assert made.records.tolist() == made.documents.tolist() == [0, 1, 3]
    assert made.names == NAMES
    kept = whole_texts.class_corpus(told, NAMES, wordless=True)
    assert whole_texts.classes(kept).tolist() == [1, 2, 2]
    assert whole_texts.tokens(kept) == [["a", "b"], [], ["d", ".", "e"]]


def test_readers_see_that_a_text_has_one_class() -> None:
    assert is_classifier(NAMES, SCHEME.level, whole_texts.one_class(NAMES))
    assert whole_texts.FORBIDDEN == class_scoring.FORBIDDEN


@pytest.mark.parametrize("name", ["O", "", " "])
def test_names_that_stand_for_no_label_are_refused(name: str) -> None:
    with pytest.raises(AnnotationError, match="stands for no label"):
        whole_texts.class_corpus([], ["law", name])
