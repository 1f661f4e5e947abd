"""The text guard: no reader's time grows faster than its input, whatever the text repeats.

Each reader gets each pattern in three sizes, the largest four times the smallest. Times are those
of this thread's processor alone; a ratio that looks steep is measured again on more text and more
often, as noise goes away and the square of a length does not.
"""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import HushdocError
from hushdoc.hashing import segmentation
from hushdoc.reading import (
    from_azure_read,
    from_docling,
    from_doctr,
    from_document_ai,
    from_hocr,
    from_rapidocr,
    from_tesseract_tsv,
    from_textract,
    in_reading_order,
    open_document,
)
from hushdoc.reading.adapters.tesseract_tsv import COLUMNS
from hushdoc.reading.pdf_characters import Character, Style
from hushdoc.reading.pdf_words import words_of
from hushdoc.runtime import encoding
from hushdoc.serialization import strict_json
from hushdoc.viewing import html, normalised_text
from hushdoc.viewing.hocr import to_hocr
from hushdoc.viewing.markdown import to_markdown
from hushdoc.viewing.redaction import redact
from hushdoc_training import labelled_texts

SIZES = (1, 2, 4)
STEEP = 8.0
"""Four times the input takes four times as long; the square would be sixteen."""

FIRST_SECONDS = 3e-4
"""The smallest size takes at least so long, or has MOST_CHARACTERS."""

MOST_CHARACTERS = 2**14
QUICK_SECONDS = 2e-3
"""What takes no longer for four times that many needs no ratio."""

PATTERNS = {
    "word": "word ",
    "letter": "x",
    "digit": "9",
    "space": " ",
    "tab": "\t",
    "newline": "\n",
    "indented-line": "\n  ",
    "carriage-return": "\r",
    "line-separator": "\u2028",
    "wide-space": "\u00a0",
    "quote": '"',
    "apostrophe": "'",
    "backslash": "\\",
    "escaped-quote": '\\"',
    "open-bracket": "[",
    "open-brace": '{"a":',
    "close-bracket": ")",
    "less": "<",
    "greater": ">",
    "open-tag": "<a",
    "open-value": '<a b="',
    "name-and-equals": " a=",
    "nested-tags": "<b><i>",
    "unclosed-word": "<span class='ocrx_word' title='bbox 1 1 2 2'>a",
    "page": "<div class='ocr_page' title='bbox 0 0 9 9'>",
    "comment": "<!--",
    "comment-end": "-->",
    "ampersand": "&",
    "entity": "&amp;",
    "numeric-entity": "&#9",
    "boxes": ";bbox ",
    "hyphen": "-",
    "full-stop": ".",
    "stops-and-spaces": ". ",
    "stop-and-quote": '."',
    "enumeration": "(1)\n1. ",
    "abbreviation": "e.g. No. ",
    "roman": "IV",
    "section": "\u00a7",
    "accents": "a\u0301",
    "accents-alone": "\u0301\u0323",
    "joined": "\U0001f468\u200d",
    "soft-hyphen": "\u00ad",
    "sharp-s": "\u00df",
    "ligature": "\ufdfa",
    "ideograph": "\u4e00",
    "thai": "\u0e01\u0e34",
    "two-words": "a b ",
}

HEAD = "\t".join(COLUMNS)
PAGE_ROW = "1\t1\t0\t0\t0\t0\t0\t0\t99\t99\t-1\t"
HOCR = "<div class='ocr_page' title='bbox 0 0 99 99'>"
BOX = {"BoundingBox": {"Left": 0.1, "Top": 0.1, "Width": 0.1, "Height": 0.1}}
PLACE = {"page_no": 1, "bbox": {"l": 1, "t": 1, "r": 9, "b": 9}, "charspan": [0, 1]}


def _chunks(text: str) -> list[str]:
    return [text[start : start + 8] for start in range(0, len(text), 8)]


def _opened(text: str) -> object:
    return open_document(text.encode("utf-8", "replace"), ocr="none")


def _document_ai(text: str) -> object:
    poly = {"vertices": [{"x": 1, "y": 1}, {"x": 9, "y": 9}]}
    tokens = [
        {
            "layout": {
                "textAnchor": {"textSegments": [{"startIndex": start, "endIndex": start + 8}]},
                "boundingPoly": poly,
            }
        }
        for start in range(0, len(text), 8)
    ]
    return from_document_ai({"text": text, "pages": [{"tokens": tokens}]})


def _repeating_document_ai(text: str) -> object:
    """Every token names the whole text, as a hostile file may."""
    anchor = {"textSegments": [{"startIndex": 0, "endIndex": len(text)}]}
    layout = {"textAnchor": anchor, "boundingPoly": {"vertices": [{"x": 1, "y": 1}]}}
    tokens = [{"layout": layout}] * (len(text) // 64)
    return from_document_ai({"text": text, "pages": [{"tokens": tokens}]})


def _docling(text: str) -> object:
    item = {"text": text, "prov": [PLACE]}
    pages = {"1": {"size": {"width": 99, "height": 99}}}
    body = {"children": [{"$ref": "#/texts/0"}]}
    return from_docling(
        {"schema_name": "DoclingDocument", "pages": pages, "texts": [item], "body": body}
    )


def _doctr(text: str) -> object:
    words = [{"value": part, "geometry": [[0.1, 0.1], [0.2, 0.2]]} for part in _chunks(text)]
    return from_doctr({"dimensions": [99, 99], "blocks": [{"lines": [{"words": words}]}]})


def _azure(text: str) -> object:
    words = [
        {"content": part, "polygon": [1, 1, 9, 1, 9, 9, 1, 9], "span": {"offset": 0, "length": 1}}
        for part in _chunks(text)
    ]
    line = {"spans": [{"offset": 0, "length": 9}]}
    pages = [{"width": 99, "height": 99, "words": words, "lines": [line] * len(words)}]
    return from_azure_read({"pages": pages})


def _textract(text: str) -> object:
    words = [
        {"BlockType": "WORD", "Id": str(number), "Text": part, "Geometry": BOX}
        for number, part in enumerate(_chunks(text))
    ]
    ids = [word["Id"] for word in words]
    lines = [{"BlockType": "LINE", "Relationships": [{"Type": "CHILD", "Ids": ids}]}] * 2
    return from_textract({"Blocks": [*lines, *words]})


def _rapidocr(text: str) -> object:
    return from_rapidocr([{"txt": text, "box": [[1, 1], [9, 1], [9, 9], [1, 9]]}])


def _pdf_words(text: str, *, across: float = 1.0) -> object:
    """Reads characters in a row, each of a text object of its own where they are upside down."""
    style = Style(across, 0.0, 10.0, 10.0, None, 10.0, 1.0)
    return list(
        words_of(
            Character(character)
            if character.isspace()
            else Character(
                character,
                (place, 0.0, place + 1.0, 9.0),
                x=float(place),
                advance=1.0,
                style=style if across > 0 else replace(style),
            )
            for place, character in enumerate(text)
        )
    )


def _field(label: str, **place: Any) -> Any:
    return SimpleNamespace(
        label=label, text="", score=1.0, page=0, box=None, word_ids=(), start=None, stop=None
    ).__class__(**{"label": label, "page": 0, "word_ids": (), "score": 1.0, "text": "", **place})


def _redacted_half(text: str) -> object:
    field = _field("a", start=0, stop=max(1, len(text) // 2))
    return redact(Document.from_text("x" + text), [field])


def _redacted_everywhere(text: str) -> object:
    """A field in each part of the text, each of another length."""
    fields = [
        _field(f"l{start % 7}", start=start, stop=min(len(text), start + 1 + start % 61))
        for start in range(0, len(text), 64)
    ]
    return redact(Document.from_text("x" + text), fields)


def _page_of(parts: list[str]) -> Document:
    words = tuple(
        Word(
            text=part,
            box=Box(x0=number % 9, y0=number // 9 % 90, x1=number % 9 + 1, y1=number // 9 % 90 + 1),
        )
        for number, part in enumerate(parts)
    )
    return Document(id="a", pages=(Page(width=99, height=99, words=words),))


def _redacted_page(text: str) -> object:
    document = _page_of([f"x{part}" if not part.strip() else part for part in _chunks(text)])
    count = document.num_words
    half = _field("a", word_ids=tuple(range(max(1, count // 2))))
    return redact(document, [half, *(_field("b", word_ids=(index,)) for index in range(count))])


def _from_file(read: Callable[[Path], object], line: Callable[[str], str]) -> Callable[..., object]:
    def reader(text: str) -> object:
        path = Path(_scratch) / "a.jsonl"
        path.write_bytes(line(text).encode("utf-8", "replace"))
        return read(path)

    return reader


def _contract(text: str) -> str:
    spans = [["a", start, start + 4] for start in range(0, max(0, len(text) - 4), 64)]
    return json.dumps({"id": "a", "label": "b", "text": text, "spans": spans})


def _shown(text: str) -> object:
    fields = [
        _field("a", start=start, stop=start + 1, text="a") for start in range(0, len(text), 64)
    ]
    answer = SimpleNamespace(
        fields=fields, below_threshold=(), coverage=1.0, warnings=(text,), source=None
    )
    return html.to_html(Document.from_text("x" + text), answer)


READERS: dict[str, Callable[[str], object]] = {
    "open": _opened,
    "open-json": lambda text: _opened("[" + text),
    "open-hocr": lambda text: _opened("<ocr_page " + text),
    "hocr": from_hocr,
    "hocr-word": lambda text: from_hocr(f"{HOCR}<a class='ocrx_word' title='bbox 1 1 2 2'>{text}"),
    "hocr-line": lambda text: from_hocr(f"{HOCR}<a class='ocr_line' title='bbox 1 1 2 2'>{text}"),
    "hocr-title": lambda text: from_hocr(f"<a class='ocr_page' title=\"{text}\">{HOCR}"),
    "hocr-tag": lambda text: from_hocr(f"<a class='ocr_page' {text}>{HOCR}"),
    "tsv": from_tesseract_tsv,
    "tsv-rows": lambda text: from_tesseract_tsv(f"{HEAD}\n{PAGE_ROW}\n" + text),
    "tsv-word": lambda text: from_tesseract_tsv(
        f"{HEAD}\n{PAGE_ROW}\n5\t1\t1\t1\t1\t1\t1\t1\t9\t9\t9\t{text}"
    ),
    "own-json": lambda text: _opened(json.dumps({"id": "a", "text": text})),
    "document-ai": _document_ai,
    "document-ai-repeating": _repeating_document_ai,
    "docling": _docling,
    "doctr": _doctr,
    "azure-read": _azure,
    "textract": _textract,
    "rapidocr": _rapidocr,
    "pdf-words": _pdf_words,
    "pdf-words-upside-down": partial(_pdf_words, across=-1.0),
    "pieces-for-a-tokenizer": lambda text: list(encoding._pieces(text)),
    "sentences": segmentation.sentences,
    "tokens": segmentation.tokens,
    "words": lambda text: segmentation.words("\u4e00" + text),
    "normalised": normalised_text.normalised,
    "normalised-with-places": normalised_text.normalised_with_places,
    "bare": normalised_text.bare,
    "redacted-half": _redacted_half,
    "redacted-everywhere": _redacted_everywhere,
    "redacted-page": _redacted_page,
    "contracts": _from_file(labelled_texts.read_contracts, _contract),
    "messages": _from_file(labelled_texts.read_messages, _contract),
    "raw-lines": _from_file(labelled_texts.read_contracts, lambda text: text),
    "conll": _from_file(labelled_texts.read_conll, lambda text: f"-DOCSTART-\n{text}\n\n" * 2),
    "strict-json": lambda text: strict_json.loads(text.encode("utf-8", "replace"), what="a"),
    "strict-json-string": lambda text: strict_json.loads(json.dumps([text]).encode(), what="a"),
    "printable": lambda text: arguments.printable(text, limit=len(text)),
    "html": _shown,
    "written-hocr": lambda text: to_hocr(_page_of(_chunks(text))),
    "markdown-text": lambda text: to_markdown(Document.from_text(text)),
    "markdown-page": lambda text: to_markdown(_page_of(_chunks(text))),
}

_scratch = ""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__import__("sys").modules[__name__], "_scratch", str(tmp_path))


@dataclass(frozen=True, kw_only=True)
class Slope:
    """How much longer the largest input takes than the smallest."""

    ratio: float
    seconds: tuple[float, ...]


def seconds(reader: Callable[[str], object], text: str) -> float:
    """Returns the time of the thread's processor that reading took, without looking for garbage.

    How long that looks depends on what earlier tests have left.
    """
    gc.disable()
    try:
        began = time.thread_time()
        with contextlib.suppress(HushdocError):
            reader(text)
        return time.thread_time() - began
    finally:
        gc.enable()


def slope(reader: Callable[[str], object], pattern: str, length: int, repeats: int) -> Slope:
    """Measures all sizes in turn, so that a moment in which others are busy spoils none alone."""
    texts = [_repeated(pattern, length * size) for size in SIZES]
    rounds = [[seconds(reader, text) for text in texts] for _ in range(repeats)]
    took = tuple(map(min, zip(*rounds, strict=True)))
    return Slope(ratio=took[-1] / max(took[0], 1e-6), seconds=took)


def is_steep(
    reader: Callable[[str], object], pattern: str, length: int, most_seconds: float = 5.0
) -> Slope | None:
    """Returns the slope that stays steep however often, and on however much text, it is measured.

    What grows with the square only shows once it outweighs what does not, so a ratio near the
    bound is followed to longer texts; what is quick there needs no more.
    """
    found, before = slope(reader, pattern, length, 1), False
    while found.ratio > STEEP * 0.75 and found.seconds[-1] > QUICK_SECONDS:
        length *= 2
        found = slope(reader, pattern, length, 3)
        too_long = sum(found.seconds) > most_seconds
        if too_long or found.ratio > STEEP:
            for repeats in (5, 9):
                found = slope(reader, pattern, length, repeats)
                if found.ratio <= STEEP:
                    break
            # On a busy machine one length alone can look so, when its text leaves the cache.
            if found.ratio > STEEP and (before or too_long):
                return found
        before = found.ratio > STEEP
    return None


def length_for(reader: Callable[[str], object], pattern: str, least: float) -> int:
    """Returns how many characters of a pattern a reader takes so long for."""
    length = 64
    while length < MOST_CHARACTERS and seconds(reader, _repeated(pattern, length)) < least:
        length *= 2
    return length


def _repeated(pattern: str, length: int) -> str:
    return (pattern * (length // len(pattern) + 1))[:length]


def steep(reader: Callable[[str], object], least: float) -> dict[str, Slope]:
    """Returns the patterns on which a reader is steep."""
    return {
        name: found
        for name, text in PATTERNS.items()
        if (found := is_steep(reader, text, length_for(reader, text, least))) is not None
    }


@pytest.mark.parametrize("name", READERS)
def test_no_text_takes_a_reader_longer_than_its_length_accounts_for(name: str) -> None:
    assert steep(READERS[name], FIRST_SECONDS) == {}


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a ratio near the bound is followed to ever longer texts
@pytest.mark.parametrize("name", READERS)
def test_no_long_text_takes_a_reader_longer_than_its_length_accounts_for(name: str) -> None:
    assert steep(READERS[name], 30 * FIRST_SECONDS) == {}


BOXES: dict[str, Callable[[int, int], tuple[float, float, float, float]]] = {
    "one-place": lambda number, count: (1, 1, 2, 2),
    "one-line": lambda number, count: (number, 1, number + 1, 2),
    "one-column": lambda number, count: (1, number, 2, number + 1),
    "stairs": lambda number, count: (number, number, number + 1, number + 1),
    "inside-one-another": lambda number, count: (number, number, 2 * count, 2 * count),
    "tall": lambda number, count: (number, 0, number + 1, 2 * count),
    "wide": lambda number, count: (0, number, 2 * count, number + 1),
    "two-columns": lambda number, count: (number % 2 * 50, number // 2, 20, number // 2 + 1),
    "points": lambda number, count: (number % 7, number % 5, number % 7, number % 5),
    "a-tall-one-beside-small-ones": lambda number, count: (
        (0, 0, 1, 2 * count) if number == 0 else (2, number, 3, number + 1)
    ),
}


@pytest.mark.parametrize("name", BOXES)
def test_no_page_takes_longer_to_put_into_order_than_its_words_account_for(name: str) -> None:
    def ordered(text: str) -> object:
        count = len(text)
        boxes = [BOXES[name](number, count) for number in range(count)]
        words = tuple(
            Word(text="a", box=Box(x0=x0, y0=y0, x1=max(x0, x1), y1=max(y0, y1)))
            for x0, y0, x1, y1 in boxes
        )
        page = Page(width=2 * count + 99, height=2 * count + 99, words=words)
        return in_reading_order(Document(id="a", pages=(page,)))

    assert is_steep(ordered, "a", 500) is None


def test_the_guard_sees_a_square() -> None:
    """The oracle can say no, of a square with a small constant too."""

    def square(text: str) -> object:
        return [text.count("\0", start) for start in range(0, len(text), 16)]

    assert is_steep(square, "x", 8000) is not None
    assert is_steep(lambda text: [character for character in text], "x", 4000) is None
