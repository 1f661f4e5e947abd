"""How rare words are at large is read from the order of a vocabulary."""

from __future__ import annotations

from collections import Counter

from hushdoc_training.crf import word_ranks


def test_minilm_words_are_whole_and_the_most_frequent_first() -> None:
    words = word_ranks.minilm_words()
    assert words[:3] == ["the", "of", "and"]
    assert len(words) > 20_000
    assert len({*words}) == len(words)
    assert all(word.isalpha() for word in words)
    order = [words.index(word) for word in ("the", "company", "agreement", "liability")]
    assert order == sorted(order)


def test_words_are_drawn_as_often_as_their_rank_lets_expect() -> None:
    words = [f"w{number}" for number in range(500)]
    drawn = Counter(word for one in word_ranks.sentences(words, count=8000) for word in one)
    assert sum(drawn.values()) == 8000 * 25
    # Zipf's law with Mandelbrot's shift: the chances of ranks 1 and 100 are as 102.7 to 3.7.
    assert 24 < drawn["w0"] / drawn["w99"] < 32
    assert drawn["w499"] > 0


def test_draws_are_the_same_every_time_and_others_with_another_seed() -> None:
    words = ["the", "of", "and"]
    first, again = (word_ranks.sentences(words, count=5) for _ in range(2))
    assert first == again
    assert first != word_ranks.sentences(words, count=5, seed=1)
