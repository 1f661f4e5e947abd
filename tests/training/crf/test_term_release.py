from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushdoc.accounting import pld
from hushdoc.hashing import FeatureScheme, features
from hushdoc_training.crf import term_release
from hushdoc_training.crf.term_release import LogOddsTable
from hushdoc_training.randomness.secret_stream import SecretStream

WORDS = FeatureScheme(rows=1009, bigrams=False, skip_grams=False)


def corpus(count: int) -> tuple[list[list[str]], np.ndarray, np.ndarray]:
    chance = np.random.default_rng(1)
    sentences, labels = [], []
    for _ in range(count):
        place = int(chance.integers(10))
        for item in range(10):
            words = [f"w{number}" for number in chance.integers(400, size=6)]
            sentences.append([*words, "governed", "laws"] if item == place else words)
            labels.append(int(item == place))
    return sentences, np.array(labels), np.arange(0, 10 * count + 1, 10)


def table_of(bound: float = 0.5) -> LogOddsTable:
    sentences, labels, _ = corpus(60)
    return term_release.log_odds(sentences, labels, WORDS, num_labels=2, bound=bound)


def test_rows_lie_inside_the_ball_and_some_on_its_surface() -> None:
    norms = np.linalg.norm(table_of(0.8).weights, axis=1)
    assert 0.79 < norms.max() <= 0.8 * (1 + 1e-6)


def test_noise_covers_every_cell_and_leaves_the_ball_out_of_the_table() -> None:
    table = table_of(0.5)
    stream = SecretStream()
    releases = [term_release.released(table, noise_std=2.0, stream=stream) for _ in range(20)]
    noise = np.stack([release.weights for release in releases]) - table.weights
    # Now and then a float32 is as it was; a cell is never so in all releases.
    assert (noise != 0).any(axis=0).all()
    # 40,000 numbers have a deviation of .0035.
    assert noise.std() == pytest.approx(2.0, rel=0.03)
    outside = replace(table, weights=np.full((4000, 2), 100, np.float32))
    back = term_release.released(outside, noise_std=0.01, stream=SecretStream())
    assert np.linalg.norm(back.weights, axis=1).mean() == pytest.approx(0.5, abs=0.01)


def test_mechanism_is_as_wide_as_two_tables_can_be_apart() -> None:
    chance = np.random.default_rng(2)
    for rows in (1, 4):
        apart = 0.0
        for _ in range(500):
            pair = term_release.projected(chance.normal(size=(2 * rows, 2)) * 9, 0.5)
            apart = max(apart, float(np.linalg.norm(pair[:rows] - pair[rows:])))
        assert apart <= term_release.term_sensitivity(bound=0.5, rows=rows)
    one = term_release.released(table_of(0.5), noise_std=0.6003, stream=SecretStream()).receipt
    assert (one.privacy_unit, one.coins, one.steps) == ("token-term", None, 1)
    assert pld.epsilon(one.mechanism(), 1e-5) == pytest.approx(8.0, abs=0.01)


def test_a_term_reaches_only_its_own_rows_of_log_odds() -> None:
    sentences, labels, _ = corpus(40)
    emptied = [["" if word == "governed" else word for word in words] for words in sentences]
    tables = [
        term_release.log_odds(
            _without_empty(version), labels, WORDS, num_labels=2, bound=0.7
        ).weights
        for version in (sentences, emptied)
    ]
    changed = np.flatnonzero((tables[0] != tables[1]).any(axis=1))
    assert changed.tolist() == features([["governed"]], WORDS).indices.tolist()
    assert np.linalg.norm(tables[0] - tables[1]) <= 2 * 0.7


def _without_empty(sentences: list[list[str]]) -> list[list[str]]:
    return [[word for word in words if word] for words in sentences]


def test_log_odds_say_which_label_a_row_speaks_for() -> None:
    sentences, labels, _ = corpus(40)
    table = term_release.log_odds(sentences, labels, WORDS, num_labels=2, bound=2.0)
    row = features([["governed"]], WORDS).indices[0]
    assert table.weights[row, 1] > 1 > -1 > table.weights[row, 0]
    unseen = np.setdiff1d(np.arange(WORDS.rows), features(sentences, WORDS).indices)
    assert not table.weights[unseen].any()


def test_terms_are_bounded_only_without_pairs() -> None:
    assert term_release.rows_of_a_term(WORDS) == 1
    assert (
        term_release.rows_of_a_term(FeatureScheme(bigrams=False, skip_grams=False, clusters=8)) == 2
    )
    for scheme in (
        FeatureScheme(),
        FeatureScheme(skip_grams=False),
        FeatureScheme(level="token", bigrams=False, skip_grams=False),
    ):
        with pytest.raises(ValueError, match="bounded number of rows"):
            term_release.rows_of_a_term(scheme)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_is_a_positive_number(wrong: float) -> None:
    with pytest.raises(ValueError, match="positive number"):
        term_release.released(table_of(), noise_std=wrong, stream=SecretStream())
