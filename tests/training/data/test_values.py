"""Values in words: against edit distances by the book, and by cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc_training.data.values import Characters, _closest_end, comparable

LETTERS = st.text("abc", min_size=1, max_size=8)


def distances(pattern: str, text: str) -> list[int]:
    """Returns, for each end, the least edit distance of a pattern from what ends there.

    Sellers (1980): the table of edit distances whose first row is all zero.
    """
    column = list(range(len(pattern) + 1))
    found = [column[-1]]
    for character in text:
        above, column[0] = column[0], 0
        for index, wanted in enumerate(pattern, start=1):
            changed = above + (wanted != character)
            above = column[index]
            column[index] = min(changed, above + 1, column[index - 1] + 1)
        found.append(column[-1])
    return found


@given(LETTERS, st.text("abcd", max_size=20))
def test_the_closest_end_is_that_of_the_table(pattern: str, text: str) -> None:
    found = distances(pattern, text)
    assert _closest_end(pattern, text) == (min(found), found.index(min(found)))


def test_values_are_longer_than_a_machine_word() -> None:
    pattern = "abcdefgh" * 20
    text = "xx" + pattern[:70] + "?" + pattern[71:] + "yy"
    assert _closest_end(pattern, text) == (1, 2 + len(pattern))


PLACES: dict[str, tuple[str, str, list[tuple[list[str], bool, bool]]]] = {
    "across words": ("sdn bhd", "MOON SDN. BHD.", [(["SDN.", "BHD."], True, True)]),
    "part of a word": ("3/4/18", "DATE:3/4/18", [(["DATE:3/4/18"], False, True)]),
    "part of a number": ("9.00", "19.00", [(["19.00"], False, False)]),
    "before more digits": ("9.00", "9.005", [(["9.005"], False, False)]),
    "after a thousand": ("234.00", "1,234.00", [(["1,234.00"], False, False)]),
    "part of a name": ("moon", "MOONLIGHT", [(["MOONLIGHT"], False, False)]),
    "in brackets": ("9.00", "(9.00)", [(["(9.00)"], True, True)]),
    "twice": ("9.00", "9.00 x 9.00", [(["9.00"], True, True), (["9.00"], True, True)]),
    "nowhere": ("8.00", "9.00", []),
    "empty": ("...", "a b", []),
    "another vowel": (
        "\u0e14\u0e35",
        "\u0e14\u0e39 \u0e14\u0e35",
        [(["\u0e14\u0e35"], True, True)],
    ),
    "a vowel more": ("\u0930", "\u0930\u093e", [(["\u0930\u093e"], False, False)]),
    "turkish capitals": ("istanbul", "\u0130STANBUL", [(["\u0130STANBUL"], True, True)]),
}


@pytest.mark.parametrize("case", PLACES)
def test_places(case: str) -> None:
    value, text, expected = PLACES[case]
    words = text.split()
    found = Characters(words).places(value)
    assert [
        ([words[index] for index in place.words], place.whole, place.apart) for place in found
    ] == expected


def test_signs_belong_to_numbers_where_they_are_kept() -> None:
    (kept,) = Characters(["-9.00"], keep=".-").places("9.00")
    assert not kept.apart


def test_the_closest_run_of_words() -> None:
    words = ["MOON", "TRADlNG", "(M)", "SDN", "BHD", "12", "LONG", "STREET"]
    assert Characters(words).closest("Moon Trading (M) Sdn Bhd") == range(5)
    assert Characters(words).closest("Star Trading House Ltd") is None
    assert Characters(words).closest("MOON") is None  # too short to be told from other text


@given(st.lists(st.text("aB1. ,", min_size=1, max_size=6), min_size=1, max_size=8), st.data())
def test_what_stands_there_is_found(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    stop = data.draw(st.integers(start + 1, len(words)))
    value = " ".join(words[start:stop])
    if not comparable(value):
        return
    found = Characters(words).places(value)
    assert any(
        comparable("".join(words[index] for index in place.words)).find(comparable(value)) >= 0
        for place in found
    )
