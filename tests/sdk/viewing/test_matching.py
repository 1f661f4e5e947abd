"""Runs looked for at once: the same places as one search for each, in linear time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from hushdoc.viewing.matching import Covered, Runs
from hushdoc.viewing.normalised_text import in_word, normalised, normalised_with_places, places


def one_by_one(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Yields the places of one text as a regular expression finds them, character by character."""
    pattern = re.compile(r"\s+".join(map(re.escape, wanted.split())))
    after = 0
    while wanted and (found := pattern.search(text, after)):
        start, stop = found.span()
        alone = (start == 0 or not in_word(text[start - 1])) and (
            stop == len(text) or not in_word(text[stop])
        )
        if alone:
            yield start, stop
        after = start + 1


def test_places_are_those_of_a_search_for_each_text() -> None:
    dice = random.Random(3)
    found = 0
    for _ in range(3000):
        text = "".join(dice.choices("aab -.\n_1", k=dice.randrange(40)))
        wanted = list({"".join(dice.choices("ab -.", k=dice.randrange(1, 5))) for _ in range(4)})
        wanted = [one for one in (" ".join(one.split()) for one in wanted) if one]
        wanted = list(dict.fromkeys(wanted))
        whole = normalised_with_places(text)
        asked = [set(one_by_one(whole.text, one)) for one in wanted]
        longest: dict[int, tuple[int, int]] = {}
        for number, spans in enumerate(asked):
            for start, stop in spans:
                longest[stop] = min(longest.get(stop, (start, number)), (start, number))
        told = {stop: (start, number) for number, start, stop in places(whole, wanted)}
        assert told == longest, (text, wanted)
        found += sum(map(len, asked))
    assert found > 1000


def test_runs_are_found_wherever_they_stand() -> None:
    dice = random.Random(4)
    for _ in range(2000):
        pieces = dice.choices("ab", k=dice.randrange(30))
        runs = list({tuple(dice.choices("ab", k=dice.randrange(1, 5))) for _ in range(5)})
        expected = {}
        for number, run in sorted(enumerate(runs), key=lambda item: len(item[1])):
            for start in range(len(pieces)):
                if tuple(pieces[start : start + len(run)]) == run:
                    expected[start + len(run)] = (number, start, start + len(run))
        assert list(Runs(runs).find(pieces)) == [expected[stop] for stop in sorted(expected)]


def test_covering_tells_what_was_free() -> None:
    dice = random.Random(5)
    covered, known = Covered(50), set[int]()
    for _ in range(60):
        start = dice.randrange(50)
        stop = dice.randrange(start, 51)
        assert covered.cover(start, stop) == (not set(range(start, stop)) <= known)
        known |= set(range(start, stop))
        assert set(covered.places()) == known


def test_accents_in_any_order_are_equal_up_to_thirty_of_them() -> None:
    assert normalised("a\u0301\u0323") == normalised("a\u0323\u0301")
    assert normalised("a" + "\u0301" * 15 + "\u0323" * 15) == normalised("a" + "\u0301\u0323" * 15)
