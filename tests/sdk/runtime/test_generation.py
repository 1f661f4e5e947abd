"""Answers written token by token, against an enumeration of all answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc.runtime import generation
from hushdoc.runtime.encoding import EncodedPage
from hushdoc.runtime.generation import Ground, Step, written

BEGIN, END, VOCABULARY = 0, 1, 5
SEARCH: dict[str, Any] = {"begin": BEGIN, "end": END}
PAST = {"told": np.zeros((1, 1, 0, 1), np.int64)}
Seed = st.integers(0, 2**16)


def logs_after(told: tuple[int, ...], seed: int) -> np.ndarray:
    """Returns the logarithms of the next token's probabilities after all tokens so far."""
    logits = np.random.default_rng([seed, *told]).normal(0, 2, VOCABULARY)
    return logits - np.log(np.exp(logits).sum())


def decoder(seed: int, runs: list[int] | None = None) -> Step:
    """Returns a decoder that remembers each beam's tokens, and depends on all of them.

    It notes of how many tokens each of its runs was.
    """

    def step(tokens: np.ndarray, past: Mapping[str, np.ndarray]) -> Any:
        told = np.concatenate([past["told"], tokens[:, None, :, None]], axis=2)
        known, new = past["told"].shape[2], tokens.shape[1]
        if runs is not None:
            runs.append(new)
        logs = [
            [logs_after(tuple(row[: known + count]), seed) for count in range(1, new + 1)]
            for row in told[:, 0, :, 0].tolist()
        ]
        return np.asarray(logs), {"told": told}

    return step


def score_of(tokens: tuple[int, ...], seed: int) -> float:
    told, total = (BEGIN,), 0.0
    for token in (*tokens, END):
        total += logs_after(told, seed)[token]
        told = (*told, token)
    return float(np.exp(total))


def every_answer(longest: int) -> Iterator[tuple[int, ...]]:
    letters = [token for token in range(VOCABULARY) if token != END]
    for length in range(1, longest + 1):
        yield from itertools.product(letters, repeat=length)


def ground(words: list[list[int]], start: int = 0, stop: int | None = None) -> Ground:
    lengths = [len(word) for word in words]
    numbers = np.repeat(np.arange(len(words)), lengths)
    page = EncodedPage(
        ids=np.asarray([token for word in words for token in word], dtype=np.int64),
        boxes=np.zeros((len(numbers), 4), np.int64),
        words=numbers,
        first=np.diff(numbers, prepend=-1) != 0,
        num_words=len(words),
        cut_words=(),
    )
    return Ground(page=page, start=start, stop=stop or len(numbers))


FREE: dict[str, Any] = {**SEARCH, "ground": ground([]), "grounded": False}


@settings(max_examples=50)
@given(seed=Seed)
def test_wide_beams_find_the_best_of_all_answers(seed: int) -> None:
    found, empty = written(decoder(seed), PAST, max_answer=4, beams=64, **FREE)
    best = sorted(every_answer(3), key=lambda tokens: -score_of(tokens, seed))[:3]
    assert [item.tokens for item in found[:3]] == best
    assert [item.score for item in found[:3]] == pytest.approx(
        [score_of(tokens, seed) for tokens in best]
    )
    assert all(item.ended for item in found[:3])
    assert empty == pytest.approx(float(np.exp(logs_after((BEGIN,), seed)[END])))
    assert sum(item.score for item in found if item.ended) + empty <= 1 + 1e-9


@given(seed=Seed, max_answer=st.integers(1, 6))
def test_one_beam_takes_the_likeliest_token_each_time(seed: int, max_answer: int) -> None:
    told: tuple[int, ...] = (BEGIN,)
    total, ended = 0.0, False
    for length in range(max_answer):
        logs = logs_after(told, seed)
        if length == 0:
            logs[END] = -np.inf
        token = int(logs.argmax())
        total += float(logs[token])
        if token == END:
            ended = True
            break
        told = (*told, token)
    total += 0.0 if ended else float(logs_after(told, seed)[END])
    (found,), _ = written(decoder(seed), PAST, max_answer=max_answer, **FREE)
    assert (found.tokens, found.ended) == (told[1:], ended)
    assert found.score == pytest.approx(float(np.exp(total)))


@given(
    seed=Seed,
    words=st.lists(
        st.lists(st.integers(2, VOCABULARY - 1), min_size=1, max_size=2), min_size=1, max_size=4
    ),
)
def test_grounded_answers_are_the_best_runs_of_words(seed: int, words: list[list[int]]) -> None:
    runs: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for one, other in itertools.combinations(range(len(words) + 1), 2):
        tokens = tuple(itertools.chain.from_iterable(words[one:other]))
        runs.setdefault(tokens, set()).add((one, other))
    found, _ = written(decoder(seed), PAST, max_answer=9, beams=32, ground=ground(words), **SEARCH)
    expected = sorted(runs, key=lambda tokens: -score_of(tokens, seed))
    assert [item.tokens for item in found] == expected
    assert [set(item.words) for item in found] == [runs[tokens] for tokens in expected]


def test_words_outside_of_the_window_are_never_said() -> None:
    window = ground([[2], [3, 4], [2, 2]], 1, 3)
    for seed in range(8):
        (found,), _ = written(decoder(seed), PAST, max_answer=5, ground=window, **SEARCH)
        assert (found.tokens, found.words) == ((3, 4), ((1, 2),))


def test_an_answer_without_end_is_cut_and_says_so() -> None:
    def never(tokens: np.ndarray, past: Mapping[str, np.ndarray]) -> Any:
        logs = np.full((*tokens.shape, VOCABULARY), np.log(0.25))
        logs[..., END] = -np.inf
        return logs, past

    (found,), empty = written(never, PAST, max_answer=32, **FREE)
    assert found.tokens == (0,) * 32  # the lowest id of equals
    assert not found.ended
    assert found.score == 0  # as it never ends
    assert empty == 0


@given(seed=Seed, beams=st.integers(1, 20))
def test_a_cut_answer_looks_no_surer_than_its_end(seed: int, beams: int) -> None:
    """Else the beginning of an answer would be surer than all of it, and above a threshold."""
    found, _ = written(decoder(seed), PAST, max_answer=3, beams=beams, **FREE)
    cut = [item for item in found if not item.ended]
    assert [item.score for item in cut] == pytest.approx(
        [score_of(item.tokens, seed) for item in cut]
    )
    assert [item.score for item in cut] == sorted((item.score for item in cut), reverse=True)


def test_where_no_token_is_possible_there_is_no_answer() -> None:
    found, _ = written(decoder(1), PAST, max_answer=3, ground=ground([]), **SEARCH)
    assert found == ()


WORDS = st.lists(
    st.lists(st.integers(2, VOCABULARY - 1), min_size=1, max_size=3), min_size=1, max_size=12
)


@given(seed=Seed, words=WORDS, grounded=st.booleans(), max_answer=st.integers(1, 20))
def test_asking_ahead_changes_no_answer(
    seed: int, words: list[list[int]], grounded: bool, max_answer: int
) -> None:
    found = []
    for most in (generation.AHEAD, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(generation, "AHEAD", most)
            found.append(
                written(
                    decoder(seed),
                    PAST,
                    max_answer=max_answer,
                    ground=ground(words),
                    grounded=grounded,
                    **SEARCH,
                )
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("grounded", [False, True])
def test_words_of_the_window_are_asked_about_in_one_run(grounded: bool) -> None:
    text = list(range(2, 22))
    runs: list[int] = []

    def reads_on(tokens: np.ndarray, past: Mapping[str, np.ndarray]) -> Any:
        runs.append(tokens.shape[1])
        logits = np.zeros((*tokens.shape, 30))
        for place, token in enumerate(tokens[0].tolist()):
            following = {BEGIN: 5, 16: END}.get(token, token + 1)
            logits[0, place, following] = 9
        return logits, {
            name: np.concatenate([a, tokens[:, None, :, None]], axis=2) for name, a in past.items()
        }

    (best,), _ = written(
        reads_on,
        PAST,
        max_answer=32,
        ground=ground([[token] for token in text]),
        grounded=grounded,
        **SEARCH,
    )
    assert best.tokens == tuple(range(5, 17))
    assert best.ended
    # One for the first token, one for it and 8 more, one for the rest with what the end cut off.
    assert runs == [1, 9, 8]


def test_no_more_is_asked_ahead_than_an_answer_may_have() -> None:
    runs: list[int] = []
    window = ground([[2]] * 30)
    written(decoder(3, runs), PAST, max_answer=4, ground=window, **SEARCH)
    assert runs[0] == 1
    assert max(runs) <= 3
