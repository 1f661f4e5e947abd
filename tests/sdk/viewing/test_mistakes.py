from __future__ import annotations

import re
from html.parser import HTMLParser

from hushdoc.document.document import Document
from hushdoc.evaluation import Entity, Evaluation
from hushdoc.labels import LabelledDocument, Span
from hushdoc.viewing.mistakes import to_html

HOSTILE = "<script>alert(1)</script>"


def page_of(*ids: str) -> str:
    """Returns the page of documents in which a total is missed and another word is found."""
    evaluation = Evaluation((HOSTILE, "total"))
    for id in ids:
        words = [HOSTILE, "9.00", "other"]
        boxes = [(10, 20 * index, 60, 20 * index + 10) for index in range(3)]
        document = Document.from_words(words, boxes, width=100, height=100, id=id)
        spans = (Span(page=0, start=0, stop=1, label=HOSTILE),) + (
            Span(page=0, start=1, stop=2, label="total"),
        )
        found = [(HOSTILE, 0), ("total", 2)]
        evaluation.add(
            LabelledDocument(document=document, spans=spans),
            [
                Entity(label=label, page=0, words=frozenset((word,)), text=words[word], score=0.9)
                for label, word in found
            ],
        )
    return to_html(evaluation, title=f"on {HOSTILE}")


def test_every_mistake_is_on_its_page_in_words_and_boxes() -> None:
    shown = page_of("first", "second")
    for what in ("missed: total", "wrong: total", "first: 1 missed, 1 wrong", "0.500"):
        assert what in shown
    assert shown.count("<img") == 2
    anchors = re.findall(r'id="((?:box|field)-\d+)"', shown)
    assert len(anchors) == len(set(anchors)) == 12
    for target in re.findall(r'href="#([^"]+)"', shown):
        assert target in anchors


def test_whatever_a_document_says_is_text() -> None:
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)

    Tags().feed(page_of(HOSTILE))
    assert "script" not in tags
    assert "link" not in tags


def test_an_evaluation_without_a_mistake_has_no_page_of_one() -> None:
    shown = to_html(Evaluation(("total",)), title="none")
    assert "0 of 0" in shown
    assert "<img" not in shown
