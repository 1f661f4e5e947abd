"""An answer as Markdown: what somebody else's renderer makes of it, hostile words included."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hushdoc_documents import Found, nothing_found
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hushdoc.arguments import printable
from hushdoc.document.document import Document
from hushdoc.document.provenance import Source
from hushdoc.errors import InputError
from hushdoc.runtime.extraction import Extraction, Field
from hushdoc.viewing.markdown import to_markdown

HOSTILE = [
    "<script>alert(1)</script>",
    "<!-- -->",
    "<https://evil.example>",
    "![seen](https://evil.example/seen.png)",
    "[click](javascript:alert(1))",
    "[click]: https://evil.example",
    "https://evil.example and www.evil.example",
    "# heading",
    "#",
    "heading\n=======",
    "heading\n---",
    "| a | b |\n|---|---|\n| c | d |",
    "a\n:-:",
    "```sh\nrm\n```",
    "~~~\ncode\n~~~",
    "    code",
    "\tcode",
    "> quote",
    "- item",
    "+ item",
    "* item",
    "1. item",
    "12) item",
    "***",
    "*a* _b_ **c** __d__ `e` ~~f~~",
    "&lt;b&gt; &#60; &nbsp;",
    "back\\slash \\| | \\\\|",
    "line\\",
    "{{ template }} {% tag %}",
    "\u202egnp.exe\x1b[31m",
    "a\u2028# b\x0b# c\x85# d",
]
PLAIN = {"inline", "text", "hardbreak"}
PLAIN |= {f"{name}_{side}" for name in ("heading", "paragraph") for side in ("open", "close")}


def parsed(text: str) -> list[Token]:
    """Returns every token that a renderer finds which knows tables and strikethrough."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [found for token in tokens for found in (token, *(token.children or ()))]


def inlines(text: str) -> list[str]:
    """Returns what a reader sees in each paragraph, heading and cell."""
    return [
        "".join(part.content for part in token.children or ())
        for token in parsed(text)
        if token.type == "inline"
    ]


def answer(*fields: Found, **change: object) -> Extraction:
    found = tuple(
        Field(**{name: getattr(item, name) for name in Found.__dataclass_fields__}, normalized=None)
        for item in fields
    )
    return replace(nothing_found(), fields=found, **change)


def page(*rows: str) -> Document:
    """Returns a document with one word for each row, at the left, line below line."""
    boxes = [(10, 20 * number, 300, 20 * number + 16) for number in range(len(rows))]
    return Document.from_words(rows, boxes, width=400, height=20 * len(rows) + 20, id="rows")


def test_fields_stand_in_a_table_before_the_text() -> None:
    asked = page("Total", "12.50")
    text = to_markdown(
        asked,
        answer(
            Found(label="total", text="12.50", score=0.987, word_ids=(1,)),
            below_threshold=answer(Found(label="date", text="?", score=0.1)).fields,
            warnings=("Page 0: 3 words were not read.",),
            source=Source(reader="pdf"),
            coverage=0.5,
        ),
    )
    assert text == (
        "# rows\n\n## Fields\n\n"
        "| label | text | score | page |\n|---|---|---:|---:|\n| total | 12.50 | 0.99 | 0 |\n\n"
        "Below the model's threshold, for a person to check:\n\n"
        "| label | text | score | page |\n|---|---|---:|---:|\n| date | ? | 0.10 | 0 |\n\n"
        "Scores are the model's own probabilities and not calibrated: a wrong answer can have "
        "a high one.\n\n"
        "- 50% of the words were read.\n- Page 0: 3 words were not read.\n- Words from: pdf\n\n"
        "## Page 0\n\nTotal  \n12.50\n"
    )


def test_calibrated_scores_name_what_they_were_measured_on() -> None:
    found = answer(Found(), calibrated_on="public *bills*")
    assert "calibrated on public \\*bills\\*; on other" in to_markdown(page("a"), found)
    assert "calibrated" not in to_markdown(page("a"), answer())
    assert "No field was found." in to_markdown(page("a"), answer())


def test_rows_stay_together_and_gaps_part_paragraphs() -> None:
    words = ["Invoice", "Total", "due", "12.50", "Thank", "you"]
    boxes = [(10, 10, 60, 20), (10, 60, 40, 70), (44, 60, 60, 70), (300, 60, 340, 70)]
    boxes += [(10, 74, 40, 84), (44, 74, 60, 84)]
    order = [5, 3, 0, 2, 4, 1]
    asked = Document.from_words(
        [words[index] for index in order], [boxes[index] for index in order], width=400, height=99
    )
    text = to_markdown(asked)
    assert text.split("## Page 0\n\n")[1] == "Invoice\n\nTotal due   12.50  \nThank you\n"


def test_a_plain_text_keeps_its_lines_and_places() -> None:
    asked = Document.from_text("First  line\nsecond\n\n\nthird", id="t")
    text = to_markdown(asked, answer(Found(label="a", text="second", start=12, stop=18)))
    assert "| a | second | 0.50 | 12-18 |" in text
    assert text.endswith("## Text\n\nFirst line  \nsecond\n\nthird\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_labels_and_ids_are_only_text(text: str) -> None:
    words = [printable(word) for word in text.split()]
    for asked in (Document.from_text(text, id=text), replace(page(*words), id=text)):
        assert {token.type for token in parsed(to_markdown(asked))} <= PLAIN

    def with_answer(given: str) -> str:
        found = Found(label=given, text=given)
        told = answer(found, warnings=(given,), calibrated_on=given, below_threshold=(found,))
        return to_markdown(replace(page("a"), id=given), told)

    blocks, usual = (
        [t.type for t in parsed(with_answer(given)) if t.block] for given in (text, "x")
    )
    assert blocks == usual
    assert {token.type for token in parsed(with_answer(text)) if not token.block} <= PLAIN
    assert "\u202e" not in with_answer(text)


def test_bare_addresses_are_no_links_to_viewers_that_look_for_them() -> None:
    text = to_markdown(Document.from_text("HTTPS://a.example www.a.example 12:30 a.b"))
    assert text.endswith("HTTPS\\://a.example www\\.a.example 12:30 a.b\n")


WORDS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1)


@given(st.lists(WORDS, min_size=1).map(" ".join))
def test_what_a_reader_sees_is_the_text(text: str) -> None:
    shown = printable(text, limit=len(text))
    found = answer(Found(label="x", text=text))
    cells = inlines(to_markdown(Document.from_text(text), found))
    assert cells[cells.index("x") + 1] == cells[-1] == shown


def test_wrong_answers_are_input_errors() -> None:
    with pytest.raises(InputError, match="The answer is not made of"):
        to_markdown(page("a"), "answer")  # type: ignore[arg-type]
