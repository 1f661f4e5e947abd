"""Lines and reading order from boxes alone."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.document.document import Document
from hushdoc.document.page import Word
from hushdoc.reading import in_reading_order, reading_order, with_segments


def laid_out(rows: Sequence[Sequence[tuple[str, float, float]]], *, slope: float = 0) -> Document:
    """Returns a page of words (text, x, y), ten pixels a letter and twenty high."""
    words, boxes = [], []
    for row in rows:
        for text, x, y in row:
            words.append(text)
            boxes.append((x, y + slope * x, x + 10 * len(text), y + 20 + slope * x))
    return Document.from_words(words, boxes, width=2000, height=2000)


def running(text: str, x: float, y: float) -> list[tuple[str, float, float]]:
    """Returns a line of words with a blank of five pixels between them."""
    placed = []
    for word in text.split(" "):
        placed.append((word, x, y))
        x += 10 * len(word) + 5
    return placed


def shuffled(document: Document, seed: int = 3) -> Document:
    (page,) = document.pages
    words = list(page.words)
    random.Random(seed).shuffle(words)
    return replace(document, pages=(replace(page, words=tuple(words)),))


def text_of(document: Document) -> str:
    return " ".join(word.text for word in document.pages[0].words)


def lines_of(document: Document) -> list[str]:
    lines = defaultdict(list)
    for word in document.pages[0].words:
        lines[word.segment].append(word.text)
    return [" ".join(words) for words in lines.values()]


def test_lines_are_found_whatever_the_order() -> None:
    document = laid_out([running("one two three", 50, 50), running("four five", 50, 80)])
    for seed in range(5):
        ordered = in_reading_order(shuffled(document, seed))
        assert lines_of(ordered) == ["one two three", "four five"]


def test_segments_are_added_and_the_order_stays() -> None:
    document = shuffled(laid_out([running("one two", 50, 50), running("far off", 900, 50)]))
    segmented = with_segments(document)
    assert text_of(segmented) == text_of(document)
    assert sorted(lines_of(in_reading_order(segmented))) == ["far off", "one two"]
    boxes = dict(
        zip(text_of(segmented).split(" "), segmented.pages[0].segment_boxes(), strict=True)
    )
    assert boxes["one"] == boxes["two"] != boxes["far"]


def test_segments_that_are_there_are_kept() -> None:
    document = Document.from_words(
        ["a", "b"], [(0, 0, 9, 9), (10, 0, 19, 9)], width=99, height=99, segments=[7, None]
    )
    assert with_segments(document) == document


@pytest.mark.parametrize("slope", [-0.03, -0.01, 0.01, 0.03])
def test_lines_may_lean(slope: float) -> None:
    rows = [
        running(f"row {n} goes on and on and on to its very last word", 50, 100 + 40 * n)
        for n in range(9)
    ]
    found = in_reading_order(shuffled(laid_out(rows, slope=slope)))
    assert sorted(lines_of(found)) == sorted(" ".join(word for word, _, _ in row) for row in rows)


PROSE = "the parties agree that this text runs on"


def test_columns_of_running_text_are_read_one_by_one() -> None:
    left = [running(f"left{n} {PROSE}", 50, 300 + 30 * n) for n in range(6)]
    right = [running(f"right{n} {PROSE}", 700, 300 + 30 * n) for n in range(6)]
    title = running("a title over both columns of this page that is long indeed", 300, 50)
    foot = running("a foot under both columns of this page that is long too", 300, 900)
    document = shuffled(laid_out([title, *left, *right, foot]))
    lines = lines_of(in_reading_order(document))
    assert [line.split(" ")[0] for line in lines] == [
        "a",
        *(f"left{n}" for n in range(6)),
        *(f"right{n}" for n in range(6)),
        "a",
    ]
    assert lines[0].startswith("a title")


def test_labels_and_values_are_read_row_by_row() -> None:
    rows = []
    for number, label in enumerate(["Net", "Tax", "Shipping", "Total"]):
        rows.append(running(label, 50, 100 + 40 * number))
        rows.append(running(f"{number}.50", 600, 100 + 40 * number))
    found = text_of(in_reading_order(shuffled(laid_out(rows))))
    assert found == "Net 0.50 Tax 1.50 Shipping 2.50 Total 3.50"


def test_lines_from_right_to_left_are_read_from_the_right() -> None:
    hebrew = ["\u05e9\u05dc\u05d5\u05dd", "\u05e2\u05d5\u05dc\u05dd", "\u05d8\u05d5\u05d1"]
    row = [(hebrew[0], 300, 50), (hebrew[1], 240, 50), (hebrew[2], 190, 50), ("12", 160, 50)]
    document = laid_out([row, [(hebrew[0], 300, 90)]])
    assert text_of(in_reading_order(shuffled(document))) == " ".join([*hebrew, "12", hebrew[0]])


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ("מקור ACME Ltd No 77 חשבונית", "חשבונית ACME Ltd No 77 מקור"),
        ("לתשלום 12.50 הכל - סך", "סך - הכל 12.50 לתשלום"),
        ("1234567 03 ACME : טלפון", "טלפון : ACME 03 1234567"),
        ("رقم No 77 فاتورة", "فاتورة No 77 رقم"),
        ("Invoice of the לתשלום הכל paid", "Invoice of the הכל לתשלום paid"),
        ("Invoice № 77 — total", "Invoice № 77 — total"),
    ],
)
def test_words_that_go_the_other_way_than_their_line_are_read_in_their_order(
    shown: str, read: str
) -> None:
    document = laid_out([running(shown, 50, 50)])
    assert text_of(in_reading_order(shuffled(document))) == read


def test_invented_pages_have_the_lines_that_they_were_drawn_with() -> None:
    """Words that the generator drew in one line are in one line; few others join them."""
    invented = pytest.importorskip("hushdoc_training.invented")
    together = found = shared = 0
    for index in range(20):
        drawn = invented.document(seed=5, index=index).document
        for page in drawn.pages:
            bare = replace(page, words=tuple(replace(word, segment=None) for word in page.words))
            (again,) = with_segments(replace(drawn, pages=(bare,))).pages
            # The generator's segments may have several lines.
            told = {pair for pair in pairs(page.words) if level(page.words, *pair)}
            seen = pairs(again.words)
            together, found, shared = (
                together + len(told),
                found + len(seen),
                shared + len(told & seen),
            )
    assert shared / together > 0.98
    assert shared / found > 0.7


def pairs(words: Sequence[Word]) -> set[tuple[int, int]]:
    members = defaultdict(list)
    for index, word in enumerate(words):
        if word.segment is not None:
            members[word.segment].append(index)
    return {pair for group in members.values() for pair in combinations(group, 2)}


def level(words: Sequence[Word], one: int, other: int) -> bool:
    first, second = words[one].box, words[other].box
    shared = min(first.y1, second.y1) - max(first.y0, second.y0)
    return shared > 0.5 * min(first.y1 - first.y0, second.y1 - second.y0)


BOXES = st.tuples(*[st.floats(0, 100) for _ in range(4)]).map(
    lambda v: (min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3]))
)


@given(st.lists(BOXES, min_size=1, max_size=40))
def test_no_word_is_lost_or_doubled_wherever_it_stands(boxes: list[tuple[float, ...]]) -> None:
    words = [f"w{number}" for number in range(len(boxes))]
    document = Document.from_words(words, boxes, width=100, height=100)
    ordered = in_reading_order(document)
    assert sorted(text_of(ordered).split(" ")) == sorted(words)
    assert in_reading_order(document) == ordered
    segments = [word.segment for word in ordered.pages[0].words]
    assert segments == sorted(segments, key=lambda number: number or 0)
    assert all(word.segment is not None for word in with_segments(document).pages[0].words)


@given(st.lists(BOXES, min_size=1, max_size=40, unique=True), st.randoms())
def test_the_order_hangs_on_the_boxes_alone(
    boxes: list[tuple[float, ...]], chance: random.Random
) -> None:
    words = [f"w{number}" for number in range(len(boxes))]
    page = Document.from_words(words, boxes, width=100, height=100).pages[0]
    expected = [page.words[index] for index in reading_order(page)]
    assert sorted(reading_order(page)) == list(range(len(words)))
    moved = list(page.words)
    chance.shuffle(moved)
    again = replace(page, words=tuple(moved))
    assert [again.words[index] for index in reading_order(again)] == expected


def test_ties_do_not_ask_for_the_order_on_the_page() -> None:
    """Cells of one middle and several heights: whichever came first once decided over the row."""
    boxes = [(0, 40, 10, 60), (50, 20, 60, 80), (100, 45, 110, 55), (0, 62, 10, 66)]
    names = ["a", "b", "c", "d"]
    orders = set()
    for seed in range(24):
        at = random.Random(seed).sample(range(4), 4)
        page = Document.from_words(
            [names[index] for index in at], [boxes[index] for index in at], width=120, height=100
        ).pages[0]
        orders.add(tuple(page.words[index].text for index in reading_order(page)))
    assert len(orders) == 1


@pytest.mark.parametrize("letters", ["abcdefg", "\u05d0\u05d1\u05d2\u05d3\u05d4\u05d5\u05d6"])
def test_words_of_one_box_stay_in_their_order(letters: str) -> None:
    words, boxes = list(letters), [(10, 10, 90, 50)] * len(letters)
    page = Document.from_words(words, boxes, width=100, height=100).pages[0]
    assert reading_order(page) == tuple(range(len(letters)))


def test_many_words_in_one_place_take_no_longer() -> None:
    boxes = [(10, 10, 20, 20)] * 10_000 + [(0, 0, 100, 100)] * 10_000
    document = Document.from_words(["x"] * len(boxes), boxes, width=100, height=100)
    began = time.process_time()
    with_segments(document)
    assert time.process_time() - began < 10


def test_boxes_of_hardly_any_height_have_an_order() -> None:
    boxes = [(0, 5, 8, 5), (0, 0, 8, 1e-310)]
    page = Document.from_words(["x", "y"], boxes, width=10, height=10).pages[0]
    assert reading_order(page) == (1, 0)
