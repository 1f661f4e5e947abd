"""Rectangles at once: the same pixels and boxes as one by one, in about linear time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hushdoc_documents import Found
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box
from hushdoc.viewing import rectangles
from hushdoc.viewing.overlay import overlay
from hushdoc.viewing.rectangles import filled, hidden
from hushdoc.viewing.redaction import redact

SIDE = 40


def share(box: Box, cover: Box) -> float:
    """Which share of a box a cover hides; a line or point counts as whole."""
    shares = []
    for low, high, first, last in (
        (box.x0, box.x1, cover.x0, cover.x1),
        (box.y0, box.y1, cover.y0, cover.y1),
    ):
        if low == high:
            shares.append(1.0 if first <= low <= last else 0.0)
        else:
            shares.append(max(0.0, min(high, last) - max(low, first)) / (high - low))
    return shares[0] * shares[1]


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    number = draw(st.sampled_from([st.integers(0, SIDE), st.floats(0, SIDE)]))
    x0, x1 = sorted((draw(number), draw(number)))
    y0, y1 = sorted((draw(number), draw(number)))
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)


@given(some=st.lists(boxes(), max_size=12), covers=st.lists(boxes(), max_size=6))
@settings(max_examples=200)
def test_a_box_is_hidden_as_the_plain_formula_says(some: list[Box], covers: list[Box]) -> None:
    plain = [any(share(box, cover) > 0.3 for cover in covers) for box in some]
    assert hidden(some, covers, 0.3) == plain


def test_many_boxes_of_all_sizes_are_hidden_as_the_plain_formula_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rectangles, "_TOGETHER", 16)
    monkeypatch.setattr(rectangles, "_BLOCK", 8)
    dice = random.Random(6)

    def some(count: int) -> list[Box]:
        found = []
        for _ in range(count):
            x, y = dice.random() * 1000, dice.random() * 1000
            width, height = 2 ** (dice.random() * 9), 2 ** (dice.random() * 6)
            found.append(Box(x0=x, y0=y, x1=x + width, y1=y + height))
        return found

    words, covers = some(400), some(150)
    plain = [any(share(box, cover) > 0.3 for cover in covers) for box in words]
    assert hidden(words, covers, 0.3) == plain
    assert 50 < sum(plain) < 350


@given(data=st.data())
def test_what_is_filled_is_what_one_by_one_would_fill(data: st.DataObject) -> None:
    corner = st.tuples(*[st.integers(-3, 12)] * 4)
    places = data.draw(st.lists(corner, max_size=8))
    expected = np.zeros((7, 9), dtype=bool)
    for x0, y0, x1, y1 in places:
        expected[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)] = True
    assert (filled(9, 7, places) == expected).all()


def test_pages_full_of_rectangles_are_filled_at_once() -> None:
    places = [(number % 50, number % 50, 2000, 2000) for number in range(100_000)]
    begun = time.thread_time()
    assert filled(2000, 2000, places).all()
    # It takes less than half a second; one by one, they take minutes.
    assert time.thread_time() - begun < 10


def test_boxes_under_very_many_covers_are_found_at_once() -> None:
    whole = Box(x0=0, y0=0, x1=9000, y1=9000)
    small = [Box(x0=i % 90, y0=i // 90, x1=i % 90 + 1, y1=i // 90 + 1) for i in range(6_000)]
    begun = time.thread_time()
    assert all(hidden([whole] * 6_000 + small, [whole] * 6_000 + small, 0.3))
    assert time.thread_time() - begun < 5  # each box with each cover takes 15


def test_slender_covers_across_large_boxes_take_little_time() -> None:
    across = [Box(x0=0, y0=i, x1=9000, y1=i + 10) for i in range(14_000)]
    down = [Box(x0=i, y0=0, x1=i + 1, y1=9000) for i in range(14_000)]
    begun = time.thread_time()
    assert not any(hidden(across, down, 0.3))
    assert time.thread_time() - begun < 3


def rows(number: int) -> tuple[int, int]:
    return number % 50, number // 50


def one_row(number: int) -> tuple[int, int]:
    return number, 0


@pytest.mark.parametrize("place", [rows, one_row])
def test_time_to_redact_grows_no_faster_than_a_page_of_repeats(
    place: Callable[[int], tuple[int, int]],
) -> None:
    def seconds(count: int) -> float:
        at = [place(number) for number in range(count)]
        # Lines that are not quite even, as in a scan.
        even = [Fraction(number * 7 % 11, 16) for number in range(count)]
        words = ["12.50" if number % 2 == 0 else f"x{number}" for number in range(count)]
        spots = [
            (20 * x, float(20 * y + shift), 20 * x + 12, float(20 * y + shift + 10))
            for (x, y), shift in zip(at, even, strict=True)
        ]
        width, height = (20 * max(numbers) + 20 for numbers in zip(*at, strict=True))
        page = Document.from_words(words, spots, width=width, height=height)
        begun = time.thread_time()
        made = redact(page, [Found(label="total", word_ids=(0,))])
        took = time.thread_time() - begun
        assert made.counts == {"total": count // 2}
        assert len(made.document.pages[0].words) == count // 2
        return took

    assert_grows_with(seconds)


def test_time_to_draw_grows_no_faster_than_a_page_of_fields() -> None:
    canvas = Image.new("RGB", (1000, 1000), "white")

    def seconds(count: int) -> float:
        at = [rows(number) for number in range(count)]
        spots = [(20 * x, 5 * y, 20 * x + 12, 5 * y + 3) for x, y in at]
        words = [f"x{number}" for number in range(count)]
        page = Document.from_words(words, spots, width=1000, height=1000).pages[0]
        fields = [
            Found(label="total", score=0.9, box=word.box, word_ids=(number,))
            for number, word in enumerate(page.words)
        ]
        begun = time.thread_time()
        overlay(page, fields, image=canvas)
        return time.thread_time() - begun

    assert_grows_with(seconds)


def assert_grows_with(seconds: Callable[[int], float]) -> None:
    times = [min(seconds(count) for _ in range(2)) for count in (200, 800, 3200)]
    # Four times the words take four times as long; a quadratic search, sixteen times.
    assert all(later < 10 * earlier for earlier, later in pairwise(times)), times
