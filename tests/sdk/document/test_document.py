"""Documents: what goes in is checked before anything reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.document.document import Document
from hushdoc.document.limits import MAX_SIDE, MAX_WORD_CHARACTERS
from hushdoc.document.page import Box, Page, Word, union
from hushdoc.document.provenance import Source
from hushdoc.errors import BoxError, EmptyDocumentError, InputError, LimitExceededError, WordError

COORDINATES = st.floats(0, 100)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    x0, x1 = sorted((draw(COORDINATES), draw(COORDINATES)))
    y0, y1 = sorted((draw(COORDINATES), draw(COORDINATES)))
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)


WORDS = st.builds(
    Word,
    text=st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8).filter(
        str.strip
    ),
    box=boxes(),
    segment=st.none() | st.integers(0, 5),
)
PAGES = st.builds(
    Page,
    width=st.just(100),
    height=st.just(100),
    words=st.lists(WORDS, min_size=1, max_size=5).map(tuple),
    image=st.none() | st.just(Path("page.png")),
    frame=st.integers(0, 3),
)
SOURCES = st.builds(
    Source,
    reader=st.sampled_from(["pdf", "image"]),
    ocr=st.none() | st.just("tesseract 5"),
    ocr_pages=st.lists(st.integers(0, 9)).map(tuple),
)
DOCUMENTS = st.builds(
    Document,
    id=st.text(max_size=8),
    pages=st.lists(PAGES, min_size=1, max_size=3).map(tuple),
    source=st.none() | SOURCES,
)


def one_word(box: Any = (1, 1, 9, 9), **change: Any) -> Document:
    return Document.from_words(["a"], [box], **{"width": 10, "height": 10, **change})


@given(DOCUMENTS)
def test_documents_round_trip_through_json(document: Document) -> None:
    told = json.loads(json.dumps(document.to_dict()))
    assert Document.from_dict(told, folder=Path()) == document
    assert all(page.image is None for page in Document.from_dict(told).pages)


@given(box=boxes(), width=st.integers(100, 4000), height=st.integers(100, 4000))
def test_normalized_boxes_are_ordered_integers_up_to_1000(
    box: Box, width: int, height: int
) -> None:
    x0, y0, x1, y1 = box.normalized(width=width, height=height)
    assert 0 <= x0 <= x1 <= 1000
    assert 0 <= y0 <= y1 <= 1000


@given(st.lists(boxes(), min_size=1))
def test_a_union_holds_all_its_boxes(found: list[Box]) -> None:
    around = union(found)
    for box in found:
        assert around.x0 <= box.x0 <= box.x1 <= around.x1
        assert around.y0 <= box.y0 <= box.y1 <= around.y1


def test_a_union_of_nothing_is_no_box() -> None:
    with pytest.raises(ValueError, match="no boxes"):
        union([])


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ((math.nan, 1, 9, 9), "not a finite number"),
        ((1, 1, math.inf, 9), "not a finite number"),
        ((9, 1, 1, 9), "corners swapped"),
        ((1, 9, 9, 1), "corners swapped"),
        ((-5, 1, 9, 9), "outside its page"),
        ((1, 1, 11, 9), "outside its page"),
        ((1, 2, 3), "four numbers"),
        (("x", 1, 2, 3), "four numbers"),
        (None, "four numbers"),
        ((10**400, 0, 0, 0), "four numbers"),
        (("x" * 10**6, 0, 0, 0), "four numbers"),
    ],
)
def test_bad_boxes_are_named(box: Any, problem: str) -> None:
    with pytest.raises(BoxError, match=problem) as raised:
        one_word(box)
    assert "word 0" in str(raised.value)
    assert raised.value.code == "BAD_BOX"
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty or whitespace"),
        (" \n\u00a0", "empty or whitespace"),
        ("a\x00b", r"U\+0000, a control character"),
        ("\x1b[2J", r"U\+001B"),
        ("tab\there", r"U\+0009"),
        ("\x85", "empty or whitespace"),
        ("a\ud800", r"U\+D800, which is not valid Unicode"),
        (7, "is int, not text"),
        (None, "is NoneType, not text"),
    ],
)
def test_bad_words_are_named(text: Any, problem: str) -> None:
    with pytest.raises(WordError, match=problem) as raised:
        Document.from_words(["a", text], [(1, 1, 2, 2)] * 2, width=10, height=10)
    assert "The word 1 " in str(raised.value)
    assert raised.value.code == "BAD_WORD"
    assert str(raised.value).isprintable()


def test_words_have_a_greatest_length() -> None:
    longest = "x" * MAX_WORD_CHARACTERS
    assert Document.from_words([longest], [(1, 1, 2, 2)], width=10, height=10).num_words == 1
    for text in (longest + "x", "x" * 10**6):
        with pytest.raises(
            LimitExceededError, match="word 0 .* a word has 10000 at most"
        ) as raised:
            Document.from_words([text], [(1, 1, 2, 2)], width=10, height=10)
        assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    "text", ["\u200d", "\u202eabc", "a b", "\u0627\u0644", "\U0001f600", "\ufeff"]
)
def test_words_of_any_script_are_sound(text: str) -> None:
    assert Document.from_words([text], [(1, 1, 2, 2)], width=10, height=10).num_words == 1


def test_boxes_without_area_are_sound() -> None:
    assert one_word((5, 5, 5, 5)).num_words == 1


@pytest.mark.parametrize(
    "size",
    [
        {"width": 0},
        {"height": -1},
        {"width": math.nan},
        {"height": math.inf},
        {"width": MAX_SIDE + 1},
        {"height": 1e308},
        {"width": 10**400},
        {"height": 10**5000},
        {"width": "10"},
        {"height": None},
    ],
)
def test_sides_that_no_page_has_are_refused(size: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="both must be positive numbers") as raised:
        one_word((0, 0, 0, 0), **size)
    assert "page 0 of 'document'" in str(raised.value)
    assert len(str(raised.value)) < 300


def test_the_longest_page_can_be_used() -> None:
    document = one_word((0, 0, MAX_SIDE, MAX_SIDE), width=MAX_SIDE, height=MAX_SIDE)
    (word,) = document.pages[0].words
    assert word.box.normalized(width=MAX_SIDE, height=MAX_SIDE) == (0, 0, 1000, 1000)


@pytest.mark.parametrize(
    "width",
    [10**400, 1e308, MAX_SIDE + 1, 0, -(10**400)],
    ids=["400 digits", "largest", "too long", "none", "negative"],
)
def test_json_with_sides_that_no_page_has_is_refused(width: float) -> None:
    data = one_word().to_dict()
    data["pages"][0]["width"] = width
    for told in (data, json.loads(json.dumps(data))):
        with pytest.raises(InputError, match="both must be positive numbers"):
            Document.from_dict(told)


def test_documents_without_words_are_refused() -> None:
    with pytest.raises(EmptyDocumentError, match="no word"):
        Document.from_words([], [], width=10, height=10)
    with pytest.raises(EmptyDocumentError):
        Document(id="x", pages=()).check()
    with pytest.raises(EmptyDocumentError):
        Document.from_dict({"id": "x", "pages": [{"width": 1, "height": 1, "words": []}]})


def test_lists_must_agree_in_length() -> None:
    with pytest.raises(InputError, match="2 words and 1 boxes"):
        Document.from_words(["a", "b"], [(0, 0, 1, 1)], width=10, height=10)
    with pytest.raises(InputError, match="2 segments"):
        one_word(segments=[1, 2])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"id": "x"},
        {"id": "x", "pages": 3},
        {"id": "x", "pages": [{}]},
        {"id": "x", "pages": [{"width": "wide", "height": 1, "words": []}]},
        {"id": "x", "pages": [{"width": 1, "height": 1, "words": [{"text": 5, "box": [0] * 4}]}]},
        {"id": "x", "pages": [{"width": 1, "height": 1, "words": [{"text": "a"}]}]},
        {"id": "x", "pages": [None]},
        {"id": "x", "pages": [{"width": math.inf, "height": 1, "words": []}]},
        {"id": "x", "text": "a", "source": "pdf"},
        {"id": "x", "text": "a", "source": {"reader": "pdf", "ocr": 3, "ocr_pages": []}},
        {"id": "x", "text": "a", "source": {"reader": "pdf", "ocr": None, "ocr_pages": ["1"]}},
    ],
)
def test_other_json_is_not_a_document(data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not a document"):
        Document.from_dict(data)


def test_segment_boxes_join_their_words_and_leave_the_rest() -> None:
    document = Document.from_words(
        ["a", "b", "c"],
        [(0, 0, 1, 1), (5, 0, 6, 2), (8, 8, 9, 9)],
        width=10,
        height=10,
        segments=[3, 3, None],
    )
    first, second, third = document.pages[0].segment_boxes()
    assert first == second == Box(x0=0, y0=0, x1=6, y1=2)
    assert third == Box(x0=8, y0=8, x1=9, y1=9)


def test_plain_texts_round_trip_and_have_no_pages() -> None:
    document = Document.from_text("The laws of Utah.\n", id="contract")
    assert document.to_dict() == {"id": "contract", "text": "The laws of Utah.\n"}
    assert Document.from_dict(document.to_dict()) == document
    assert document.pages == ()
    with pytest.raises(EmptyDocumentError):
        document.check()


@pytest.mark.parametrize("text", [None, 7, ["a"]])
def test_texts_must_be_strings(text: Any) -> None:
    with pytest.raises(InputError):
        Document.from_dict({"id": "x", "text": text})


HALF = "a\ud800"
PAGES = Document.from_words(["a"], [(0, 0, 1, 1)], width=9, height=9).to_dict()["pages"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Document.from_text(HALF),
        lambda: Document.from_text("a", id=HALF),
        lambda: Document.from_words(["a"], [(0, 0, 1, 1)], width=9, height=9, id=HALF),
        lambda: Document.from_dict({"id": "x", "text": HALF}),
        lambda: Document.from_dict({"id": HALF, "pages": PAGES}),
        lambda: Document.from_dict({"id": "x", "text": "a", "source": source_of(HALF, None)}),
        lambda: Document.from_dict({"id": "x", "text": "a", "source": source_of("pdf", HALF)}),
    ],
)
def test_no_document_holds_what_answers_could_not_repeat_in_utf_8(
    make: Callable[[], Document],
) -> None:
    with pytest.raises(InputError, match="not valid Unicode|must be names"):
        make()


def source_of(reader: str, ocr: str | None) -> dict[str, Any]:
    return {"reader": reader, "ocr": ocr, "ocr_pages": []}


def test_a_source_is_told_to_people_and_kept() -> None:
    source = Source(reader="pdf", ocr="tesseract 5", ocr_pages=tuple(range(9)))
    assert str(source) == "pdf, pages 0, 1, 2, 3, 4, ... by tesseract 5"
    document = Document(id="x", pages=(), text="a", source=source)
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document
