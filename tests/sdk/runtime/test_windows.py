"""Windows cover every token, cut no word, and are merged into one row for each word."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.runtime import windows
from hushdoc.runtime.encoding import EncodedPage

CAPACITY = 12


def page(lengths: list[int]) -> EncodedPage:
    """Returns a page whose words have these numbers of tokens."""
    words = np.repeat(np.arange(len(lengths)), lengths)
    return EncodedPage(
        ids=np.arange(len(words), dtype=np.int64),
        boxes=np.zeros((len(words), 4), dtype=np.int64),
        words=words.astype(np.int64),
        first=np.diff(words, prepend=-1) != 0,
        num_words=len(lengths),
        cut_words=(),
    )


LENGTHS = st.lists(st.integers(0, CAPACITY), max_size=60)
OVERLAPS = st.integers(0, CAPACITY - 1)


@given(lengths=LENGTHS, overlap=OVERLAPS)
def test_split_covers_all_tokens_and_cuts_no_word(lengths: list[int], overlap: int) -> None:
    made = page(lengths)
    ranges = windows.split(made, capacity=CAPACITY, overlap=overlap)
    covered = {token for start, stop in ranges for token in range(start, stop)}
    assert covered == set(range(len(made.ids)))
    for start, stop in ranges:
        assert 0 < stop - start <= CAPACITY
        assert made.first[start]
        assert stop == len(made.ids) or made.first[stop]
    for (start, stop), (later, _) in zip(ranges, ranges[1:], strict=False):
        assert start < later <= stop
        assert stop - later <= overlap


@given(lengths=LENGTHS, overlap=OVERLAPS)
def test_merge_gives_each_word_one_row_from_its_own_first_token(
    lengths: list[int], overlap: int
) -> None:
    made = page(lengths)
    ranges = windows.split(made, capacity=CAPACITY, overlap=overlap)
    # The score of a token is its number, so a row tells where it came from.
    outputs = [
        np.arange(start, stop, dtype=np.float32)[:, None].repeat(3, axis=1)
        for start, stop in ranges
    ]
    merged = windows.merge(made, ranges, outputs)
    assert len(merged) == made.num_words
    if not ranges:
        return
    for word, length in enumerate(lengths):
        if length == 0:
            assert np.isnan(merged[word]).all()
        else:
            assert (merged[word] == np.flatnonzero(made.words == word)[0]).all()


@given(lengths=LENGTHS, overlap=OVERLAPS)
def test_merge_takes_the_window_with_most_context(lengths: list[int], overlap: int) -> None:
    made = page(lengths)
    ranges = windows.split(made, capacity=CAPACITY, overlap=overlap)
    outputs = [
        np.full((stop - start, 1), number, dtype=np.float32)
        for number, (start, stop) in enumerate(ranges)
    ]
    merged = windows.merge(made, ranges, outputs)
    total = len(made.ids)
    for word in set(made.words.tolist()):
        token = int(np.flatnonzero(made.words == word)[0])
        chosen = int(merged[word, 0])

        def context(number: int, token: int = token) -> int:
            start, stop = ranges[number]
            left = token - start if start > 0 else stop - start
            right = stop - token if stop < total else stop - start
            return min(left, right)

        seen = [number for number, (start, stop) in enumerate(ranges) if start <= token < stop]
        assert chosen in seen
        assert context(chosen) == max(context(number) for number in seen)


def test_short_pages_need_one_window() -> None:
    assert windows.split(page([3, 4, 5]), capacity=12, overlap=4) == [(0, 12)]
    assert windows.split(page([]), capacity=12, overlap=4) == []


def test_patches_leave_less_room_for_tokens_in_a_batch() -> None:
    parts = [windows.Window(page=0, start=at, stop=at + 10) for at in range(0, 1000, 10)]
    for most in (512, 2048):
        plain = [len(batch) for batch in windows.batches(parts, max_tokens=most)]
        shown = [len(batch) for batch in windows.batches(parts, max_tokens=most, patches=197)]
        assert plain[0] == min(most // 12, 100)
        assert shown[0] == most // (12 + 197)
        assert sum(plain) == sum(shown) == 100


@given(pages=st.lists(st.integers(0, 3), max_size=12), at_once=st.integers(1, 4))
def test_windows_come_in_groups_of_whole_pages(pages: list[int], at_once: int) -> None:
    parts = [
        windows.Window(page=number, start=10 * part, stop=10 * part + 10)
        for number, count in enumerate(pages)
        for part in range(count)
    ]
    groups = list(windows.by_pages(parts, at_once=at_once))
    assert [part for group in groups for part in group] == parts
    seen = [{part.page for part in group} for group in groups]
    assert all(0 < len(group) <= at_once for group in seen)
    assert all(len(group) == at_once for group in seen[:-1])
    assert sum(map(len, seen)) == len({part.page for part in parts})
