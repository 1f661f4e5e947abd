"""hOCR: what is written is well-formed, and is read back as the same words."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hushdoc_documents import Found
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import InputError
from hushdoc.reading import from_hocr
from hushdoc.viewing.hocr import to_hocr


def page(texts: list[str], segments: list[int | None]) -> Page:
    return Page(
        width=600,
        height=900,
        words=tuple(
            Word(
                text=text,
                box=Box(x0=10, y0=10 + 20 * index, x1=500, y1=25 + 20 * index),
                segment=segment,
            )
            for index, (text, segment) in enumerate(zip(texts, segments, strict=True))
        ),
    )


TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8)
SEGMENTS = st.one_of(st.none(), st.integers(0, 3))


@given(st.lists(st.lists(st.tuples(TEXTS, SEGMENTS), min_size=1, max_size=6), min_size=1))
def test_words_and_boxes_are_read_back(pages: list[list[tuple[str, int | None]]]) -> None:
    document = Document(
        id="d", pages=tuple(page(*map(list, zip(*items, strict=True))) for items in pages)
    )
    text = to_hocr(document)
    ElementTree.fromstring(text)
    back = from_hocr(text)
    for one, other in zip(document.pages, back.pages, strict=True):
        assert (one.width, one.height) == (other.width, other.height)
        assert [word.text for word in one.words] == [word.text for word in other.words]
        assert [word.box for word in one.words] == [word.box for word in other.words]
        assert [word.segment is None for word in one.words] == [
            word.segment is None for word in other.words
        ]


def test_fields_are_told_on_their_words() -> None:
    document = Document(id="d", pages=(page(["Total", "12.50"], [0, 0]),))
    label = "a'b\" <c>; bbox 0 0 1 1"
    text = to_hocr(document, [Found(label=label, score=0.98765, page=0, word_ids=(1,))])
    parts = list(ElementTree.fromstring(text).iter())
    words = [item for item in parts if item.get("id") == "word_0_1"]
    assert [item.get("data-field") for item in words] == [label]
    assert words[0].get("data-score") == "0.9877"
    assert from_hocr(text).pages[0].words[1].box == document.pages[0].words[1].box
    lines = [
        item for item in ElementTree.fromstring(text).iter() if item.get("class") == "ocr_line"
    ]
    assert [item.get("title") for item in lines] == ["bbox 10 10 500 45"]


def test_characters_that_xml_has_not_are_replaced() -> None:
    document = Document(id="a\x00\x1b\ud800", pages=(page(["\ufffe&<x"], [None]),))
    root = ElementTree.fromstring(to_hocr(document).encode("utf-8"))
    assert "\ufffd&<x" in "".join(root.itertext())


def test_a_plain_text_has_no_boxes_to_write() -> None:
    with pytest.raises(InputError, match="plain text"):
        to_hocr(Document.from_text("a", id="t"))
