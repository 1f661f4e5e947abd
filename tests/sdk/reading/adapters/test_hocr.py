"""hOCR: any writer's, and any bytes in bounded time."""

from __future__ import annotations

import time

import pytest

from hushdoc.errors import UnsupportedFormatError
from hushdoc.reading import from_hocr


def page(inside: str, box: str = "bbox 0 0 100 100") -> str:
    return f"<html><body><div class='ocr_page' title='image \"a > b.png\"; {box}'>{inside}</div>"


def word(text: str, box: str = "bbox 10 10 30 20") -> str:
    return f"<span class='ocrx_word' title='{box}; x_wconf 91'>{text}</span>"


def line(inside: str, kind: str = "ocr_line") -> str:
    return f'<span title="bbox 10 10 90 20" class="{kind}" lang="en">{inside}</span>'


def texts(content: str) -> list[str]:
    return [found.text for found in from_hocr(content).pages[0].words]


def test_markup_inside_words_is_passed_over() -> None:
    assert texts(page(word("<strong>To<em>t</em></strong>al<br/>"))) == ["Total"]
    assert texts(page(word("&lt;R&amp;D&gt; &#x2014;"))) == ["<R&D> \u2014"]


def test_values_may_be_without_quotes() -> None:
    bare = "<span class=ocrx_word title='bbox 10 10 30 20'>a</span>"
    other = "<span id=w_2 title='bbox 40 10 60 20' class=ocrx_word>b</span>"
    assert texts(page(word("quoted") + bare + other)) == ["quoted", "a", "b"]
    whole = "<div title='bbox 0 0 100 100' class=ocr_page>" + bare + "</div>"
    assert texts(whole) == ["a"]
    # A title that speaks of classes has none.
    assert texts(page("<span title='class=ocrx_word'>c</span>" + bare)) == ["a"]


def test_comments_and_unclosed_elements_do_no_harm() -> None:
    assert texts(page(f"<!-- {word('hidden')} -->{word('a')}")) == ["a"]
    assert texts(page(word("a") + "<!-- no end " + word("hidden"))) == ["a"]
    unclosed = "<span class='ocrx_word' title='bbox 1 1 2 2'>one"
    assert texts(page(unclosed + word("two"))) == ["one", "two"]


def test_a_word_that_was_never_closed_stays_on_its_page() -> None:
    unclosed = page("<span class='ocrx_word' title='bbox 1 1 2 2'>one")
    first, second = from_hocr(unclosed + page(word("two"))).pages
    assert [found.text for found in first.words] == ["one"]
    assert [found.text for found in second.words] == ["two"]


def test_lines_alone_are_shared_among_their_words() -> None:
    document = from_hocr(page(line("Total due", "ocrx_line")))
    first, second = document.pages[0].words
    assert (first.text, second.text) == ("Total", "due")
    assert first.box.x0 == 10
    assert second.box.x1 == 90
    assert first.box.x1 < second.box.x0
    assert first.segment == second.segment == 0


def test_a_page_may_begin_elsewhere_than_at_zero() -> None:
    document = from_hocr(page(word("a", "bbox 110 60 130 70"), box="bbox 100 50 200 150"))
    assert document.pages[0].width == 100
    assert document.pages[0].words[0].box.to_list() == [10, 10, 30, 20]


def test_segments_are_the_lines_of_each_page() -> None:
    text = page(line(word("a") + word("b")) + line(word("c"))) + page(line(word("d")))
    first, second = from_hocr(text).pages
    assert [found.segment for found in first.words] == [0, 0, 1]
    assert [found.segment for found in second.words] == [0]


@pytest.mark.parametrize("text", ["", "<html></html>", "ocr_page", page("", box="x_size 3")])
def test_other_html_is_no_hocr(text: str) -> None:
    with pytest.raises(UnsupportedFormatError):
        from_hocr(text)


@pytest.mark.parametrize(
    "evil",
    [
        "<" * 2_000_000,
        "<" + "a" * 2_000_000,
        "<a " + "class=" * 400_000,
        "<a " + "class=x " * 250_000 + ">",
        "<span class='" * 150_000,
        "<!--" * 500_000,
        "<span title='" + ";" * 1_000_000 + "' class='ocrx_word'>",
        "&" * 2_000_000,
        "<b>" * 600_000 + "</i>" * 400_000,
        "<span class='ocrx_word' title='bbox 1 1 2 2'>" + "<span>" * 300_000,
        "<span x='" + "bbox " * 400_000 + "' class='ocrx_word'>",
    ],
)
def test_the_time_grows_with_the_length_alone(evil: str) -> None:
    began = time.process_time()
    assert texts(page(word("a") + "\n" + evil))[0] == "a"
    # Two megabytes; what grows with the square would take hours.
    assert time.process_time() - began < 10
