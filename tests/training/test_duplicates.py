"""Copies are one record, by a key of each document alone; near copies are a warning."""

from __future__ import annotations

import time
import unicodedata
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hushdoc_training import duplicates

Page = tuple[str, str]
"""An id that training never reads, and a text."""


def distinct(pages: list[Page]) -> list[Page]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return duplicates.distinct(
            pages, texts=lambda page: [page[1]], content=lambda page: page[1].encode(), told=True
        )


def told(pages: list[Page], *, asked: bool = True) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        duplicates.distinct(
            pages,
            texts=lambda page: [page[1]],
            content=lambda page: page[1].encode(),
            told=asked,
        )
    return [str(warning.message) for warning in found]


def essay(seed: int, count: int = 400) -> list[str]:
    draw = np.random.default_rng(seed)
    return [f"w{number}" for number in draw.integers(5000, size=count)]


def test_a_document_under_two_ids_is_one_record() -> None:
    pages = [("a", "Total 12.50"), ("b", "other"), ("c", "TOTAL:  12,50"), ("d", "12 50 total")]
    assert [page[0] for page in distinct(pages)] in (["a", "b"], ["b", "c"], ["b", "d"])
    assert any("same words as others: 2 documents." in line for line in told(pages))
    assert told(pages, asked=False) == []
    assert told([("a", "one"), ("b", "two")]) == []


def test_words_that_differ_in_a_vowel_sign_are_different() -> None:
    """Of one key, a document more could take the place of another in its record."""
    for one, other in (
        ("\u0915\u0941\u0932", "\u0915\u093e\u0932"),
        ("\u0e14\u0e35", "\u0e14\u0e39"),
    ):
        assert len(distinct([("a", f"{one} 50"), ("b", f"{other} 50")])) == 2
    assert len(distinct([("a", "caf\u00e9"), ("b", "CAFE\u0301"), ("c", "cafe")])) == 2
    assert duplicates.words_of(["_\u845b\U000e0100\u57ce_ 1\ufe0f"]) == ["\u845b", "\u57ce", "1"]


texts = some.lists(
    some.sampled_from(["a b", "b a", "A  b", "c", "c d", "", "!", "d.c"]), max_size=9
)


@given(texts, some.sampled_from(["a b", "c", "e", "", "!"]))
def test_one_key_more_adds_one_record_and_leaves_the_others(before: list[str], new: str) -> None:
    """The neighbour relation of the claim: all documents of one key come or go together."""

    def key(text: str) -> bytes:
        words = duplicates.words_of([text])
        return duplicates.key_of(words) if words else text.encode()

    without = [("", text) for text in before if key(text) != key(new)]
    kept, more = distinct(without), distinct([*without, ("x", new), ("y", new)])
    assert sorted(more) == sorted([*kept, ("x", new)])


@given(texts, some.randoms(use_true_random=False))
def test_order_and_exact_copies_change_nothing(before: list[str], draw: object) -> None:
    pages = [("", text) for text in before]
    shuffled = [*pages, *pages]
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sorted(distinct(shuffled)) == sorted(distinct(pages))


def test_a_document_that_resembles_two_others_does_not_join_them() -> None:
    """Connected components would: one document more would merge two records."""
    left = essay(0)
    middle, right = [*left[:-6], *essay(1, 6)], [*left[:-12], *essay(2, 12)]
    pages = [("l", " ".join(left)), ("m", " ".join(middle)), ("r", " ".join(right))]
    assert len(distinct(pages)) == 3
    assert any("Nearly the same as others: 2 documents." in line for line in told(pages))


def test_near_copies_are_counted_as_the_share_of_equal_shingles_says() -> None:
    """MinHash against the exact Jaccard index, at its two ends."""
    base = essay(3)
    close, far = [*base[:-4], *essay(4, 4)], [*base[:200], *essay(5, 200)]

    def jaccard(left: list[str], right: list[str]) -> float:
        one, two = ({*zip(w, w[1:], w[2:], strict=False)} for w in (left, right))
        return len(one & two) / len(one | two)

    assert jaccard(base, close) > 0.95 > 0.4 > jaccard(base, far)
    assert duplicates.near_copies([base, close]) == 1
    assert duplicates.near_copies([base, far]) == 0
    assert duplicates.near_copies([]) == duplicates.near_copies([base]) == 0
    signatures = [duplicates._signature(words) for words in (base, close)]
    share = float((signatures[0] == signatures[1]).mean())
    assert share == pytest.approx(jaccard(base, close), abs=0.12)


def test_time_grows_as_the_number_of_documents() -> None:
    def seconds(count: int) -> float:
        pages = [("", " ".join(essay(number, 60))) for number in range(count)]
        began = time.perf_counter()
        distinct(pages)
        return time.perf_counter() - began

    seconds(50)
    small, large = (min(seconds(count) for _ in range(3)) for count in (150, 1200))
    assert large / small < 8 * 3


def test_very_many_signs_on_one_letter_take_linear_time() -> None:
    began = time.process_time()
    (word,) = duplicates.words_of(["a" + "\u0301\u0316" * 200_000])
    assert time.process_time() - began < 5  # a minute, where all are brought into one order
    assert len(word) > 390_000
    few = "a" + "\u0301\u0316" * 15
    assert duplicates.words_of([few]) == [unicodedata.normalize("NFKC", few)]
