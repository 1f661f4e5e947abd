from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hushdoc import hashing
from hushdoc.certificate.audit_reports import Audit
from hushdoc.hashing import FeatureScheme
from hushdoc_training.audit import coincidence
from hushdoc_training.audit.coincidence import Guesses, Puzzle
from hushdoc_training.crf import filling
from hushdoc_training.randomness.secret_stream import SecretStream

SCHEME = FeatureScheme(rows=60_000)


def puzzles(data: Any) -> list[Puzzle]:
    return coincidence.puzzles(
        data.sentences,
        data.labels,
        data.others,
        count=120,
        candidates=30,
        generator=np.random.default_rng(4),
        eligible=_rare(data).__contains__,
    )


def parted(data: Any) -> tuple[list[Puzzle], list[Puzzle]]:
    """Puzzles about terms that the table learned from, and about others."""
    everything = puzzles(data)
    learned = coincidence.learned_from(everything, data.table.genuine, SCHEME)
    return learned, [puzzle for puzzle in everything if puzzle not in learned]


def stream(number: int) -> SecretStream:
    return SecretStream(key=bytes([number]) * 32)


def test_redacted_terms_that_were_learned_from_are_found_in_the_paper_fill(
    contracts: Any,
) -> None:
    table = filling.paper_fill(contracts.table, stream=stream(0))
    learned, _ = parted(contracts)
    assert len(learned) > 40
    guesses = coincidence.closeness(table, learned, SCHEME)
    found = guesses.attack(coincidence.CLOSENESS)
    # No two features of such a term ever fired apart, so but for shared rows all weights are equal.
    assert found.auc_interval[0] > 0.95
    assert found.tpr_interval[0] > 0.9
    assert found.fpr <= 0.001
    assert np.median(guesses.ranks()) == 0


def test_traces_give_away_terms_from_which_nothing_was_learned(contracts: Any) -> None:
    table = filling.paper_fill(contracts.table, stream=stream(1))
    _, others = parted(contracts)
    found = coincidence.traces(table, others, SCHEME).attack(coincidence.TRACES)
    assert found.auc_interval[0] > 0.9
    assert found.tpr_interval[0] > 0.3
    drawn = filling.paper_fill(contracts.table, stream=stream(1), zeros_drawn=True)
    hidden = coincidence.traces(drawn, others, SCHEME).attack(coincidence.TRACES)
    assert hidden.auc < found.auc - 0.1


def test_traces_are_zeros_for_the_label_and_rows_that_cancel() -> None:
    rows = np.array([[0.3, 0.0], [0.5, -0.5], [0.0, 0.4], [0.3, 0.2]])
    assert coincidence._traces(rows, 1) == 0.5
    assert coincidence._traces(rows, 0) == 0.5
    assert coincidence._traces(rows[:0], 0) == -1


def test_equal_zeros_are_no_coincidence() -> None:
    rows = np.array([[0.0, 0.1], [0.0, 0.2], [0.0, 0.3]])
    assert coincidence._closeness(rows, 1) <= 0
    assert coincidence._closeness(rows + 0.5, 1) > 1


def test_terms_that_were_not_learned_from_are_like_any_other(contracts: Any) -> None:
    table = filling.paper_fill(contracts.table, stream=stream(1), zeros_drawn=True)
    _, others = parted(contracts)
    low, high = coincidence.closeness(table, others, SCHEME).attack("others").auc_interval
    assert low <= 0.55
    assert high >= 0.45


def test_noise_hides_equal_weights_and_not_what_a_term_says(contracts: Any) -> None:
    chosen, _ = parted(contracts)
    found = {}
    for noise in (1e-9, filling.NOISE):
        table = filling.noisy_fill(contracts.table, stream=stream(2), noise=noise)
        near = coincidence.closeness(table, chosen, SCHEME)
        spoken = coincidence.candidate_scores(table, chosen, SCHEME).standing()
        found[noise] = near.attack("near"), spoken.attack("spoken")
    # Without noise the audit fails; with it single weights are hidden.
    assert found[1e-9][0].tpr_interval[0] > 0.9
    assert found[filling.NOISE][0].tpr_interval[1] < 0.2
    # The sum over a term's rows is not, so that only dropping rare terms hides them.
    assert found[filling.NOISE][1].auc_interval[0] > 0.9


@pytest.mark.parametrize("attack", [coincidence.closeness, coincidence.candidate_scores])
def test_redacted_terms_that_were_dropped_are_not_found_in_the_noisy_fill(
    contracts: Any, without_rare: Any, attack: Callable[..., Guesses]
) -> None:
    chosen = puzzles(contracts)
    areas, hits, trials = [], 0, 0
    # Whether a table gives terms away is a matter of all its draws: five fills, not one.
    for number in range(5):
        table = filling.noisy_fill(without_rare.table, stream=stream(number))
        guesses = attack(table, chosen, SCHEME)
        for found in (guesses.attack("as it is"), guesses.standing().attack("in its place")):
            areas.append(found.auc)
            hits += round(found.tpr * found.num_true)
            trials += found.num_true
    # A fill's area has a deviation of .025; the same puzzles go through all, so .03 for the mean.
    assert np.mean(areas) < 0.55
    # 1200 trials of a share of .001; more than .01 of them happens by chance once in 1e8.
    assert hits / trials <= 0.01


def _rare(data: Any) -> set[str]:
    """Words that one sentence has, and no other."""
    counts = Counter(token for words in data.sentences for token in set(words))
    return {term for term, count in counts.items() if count == 1}


def test_a_table_of_chance_gives_nothing_away(contracts: Any) -> None:
    table = np.random.default_rng(5).normal(size=(SCHEME.rows, 2))
    for attack in (coincidence.closeness, coincidence.candidate_scores):
        guesses = attack(table, puzzles(contracts), SCHEME)
        low, high = guesses.attack("chance").auc_interval
        assert low <= 0.52
        assert high >= 0.48
        assert np.mean(guesses.ranks()) == pytest.approx(0.5, abs=0.12)


def test_only_rows_that_a_candidate_adds_are_looked_at() -> None:
    puzzle = Puzzle(tokens=["a", "b", "c", "d"], place=1, candidates=["b", "x"], label=1)
    rows = coincidence._rows_of_candidates(puzzle, SCHEME, None)
    # Itself, and its pairs with a, c and d.
    assert [len(own) for own in rows] == [4, 4]
    assert not set(rows[0]) & set(rows[1])
    words = replace(SCHEME, bigrams=False, skip_grams=False)
    assert [len(own) for own in coincidence._rows_of_candidates(puzzle, words, None)] == [1, 1]


def test_score_of_a_candidate_is_what_its_rows_say_for_the_label() -> None:
    words = replace(SCHEME, bigrams=False, skip_grams=False)
    puzzle = Puzzle(tokens=["a", "b"], place=1, candidates=["b", "x"], label=1)
    [row], [other] = coincidence._rows_of_candidates(puzzle, words, None)
    table = np.zeros((SCHEME.rows, 2))
    table[row], table[other] = [-1.0, 2.0], [4.0, 0.5]
    found = coincidence.candidate_scores(table, [puzzle], words)
    assert found.scores.tolist() == [3.0, -3.5]
    assert found.ranks().tolist() == [0.0]


def test_puzzles_are_places_of_words_in_labelled_sentences(contracts: Any) -> None:
    labelled = [s for s, label in zip(contracts.sentences, contracts.labels, strict=True) if label]
    found = puzzles(contracts)
    assert len(found) == 120
    for puzzle in found:
        assert puzzle.tokens in labelled
        assert puzzle.candidates[0] == puzzle.tokens[puzzle.place]
        assert len(puzzle.candidates) == 31
        assert puzzle.candidates[0] in _rare(contracts)
        assert puzzle.candidates[0] not in puzzle.candidates[1:]


def test_standing_compares_candidates_of_one_place_alone() -> None:
    guesses = coincidence.Guesses(
        scores=np.array([3.0, 1.0, 1.0, 1.0, 7.0, 7.0]),
        true=np.array([True, False, False, False, True, False]),
        puzzle=np.array([5, 5, 5, 5, 9, 9]),
    )
    found = guesses.standing().scores
    assert found == pytest.approx([3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5), 0.0, 0.0])


def test_every_attack_becomes_a_record_of_the_certificate(contracts: Any) -> None:
    table = filling.paper_fill(contracts.table, stream=stream(0))
    chosen = puzzles(contracts)[:20]
    near = coincidence.closeness(table, chosen, SCHEME)
    spoken = coincidence.candidate_scores(table, chosen, SCHEME)
    for method, guesses in (
        (coincidence.CLOSENESS, near),
        (coincidence.SCORE, spoken),
        (coincidence.RANK, spoken.standing()),
    ):
        audit = guesses.attack(method).audit()
        assert (audit.method, audit.unit, audit.canaries) == (method, "token-term", 20)
        assert Audit.from_dict(audit.to_dict(), "audit") == audit


def test_puzzles_outside_are_places_in_sentences_without_a_label(contracts: Any) -> None:
    made = coincidence.puzzles(
        contracts.sentences,
        contracts.labels,
        contracts.others,
        count=50,
        candidates=3,
        generator=np.random.default_rng(0),
        outside=True,
    )
    without = [contracts.sentences[n] for n in np.flatnonzero(contracts.labels == 0)]
    assert len(made) == 50
    assert all(puzzle.label == 0 and puzzle.tokens in without for puzzle in made)


def test_one_row_of_a_term_is_held_against_those_of_the_words_around_it() -> None:
    scheme = FeatureScheme(rows=1000, bigrams=False, skip_grams=False)
    rows = {
        word: int(hashing.features([[word]], scheme).indices[0])
        for word in ("we", "hired", "ada", "bob", "cy")
    }
    assert len(set(rows.values())) == 5
    weights = np.zeros((1000, 2), np.float32)
    for word, weight in {"we": 0.1, "hired": 0.7, "ada": 0.7, "bob": 0.69, "cy": 0.2}.items():
        weights[rows[word]] = [-weight, weight]
    puzzle = Puzzle(
        tokens=["we", "hired", "ada"], place=2, candidates=["ada", "bob", "cy"], label=1
    )
    true, near, far = coincidence.closeness(weights, [puzzle], scheme).scores
    assert true == 1.0
    assert -0.01 < near < 0
    assert far == pytest.approx(-0.1 / 0.3)
    alone = Puzzle(tokens=["ada"], place=0, candidates=["ada", "bob"], label=1)
    assert coincidence.closeness(weights, [alone], scheme).scores.tolist() == [-1, -1]


def test_no_term_is_asked_for_twice() -> None:
    found = coincidence.puzzles(
        [["Acme", "and", "acme"], ["Bolt", "and"]],
        np.array([1, 1]),
        ["x", "y"],
        count=9,
        candidates=1,
        generator=np.random.default_rng(0),
    )
    assert sorted(puzzle.candidates[0].lower() for puzzle in found) == ["acme", "and", "bolt"]


def test_ties_rank_in_the_middle() -> None:
    guesses = coincidence.Guesses(
        scores=np.zeros(5),
        true=np.array([True, False, False, False, False]),
        puzzle=np.zeros(5, dtype=np.int64),
    )
    assert guesses.ranks().tolist() == [0.5]


def test_tables_of_tokens_are_refused() -> None:
    puzzle = Puzzle(tokens=["a"], place=0, candidates=["a"], label=1)
    with pytest.raises(ValueError, match="reads sentences"):
        coincidence.closeness(np.zeros((9, 2)), [puzzle], FeatureScheme(rows=9, level="token"))
