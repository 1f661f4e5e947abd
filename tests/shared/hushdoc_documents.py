"""Pages, fields and engines that tests put together by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.runtime.extraction import Extraction, Timings

WORDS = ("Total", "12.50", "EUR", "from", "acme", "on", "2026-11-21")


def page(num_words: int, *, shift: int = 0, image: Path | None = None) -> Page:
    """Returns a page of words in rows of ten; `shift` begins elsewhere in WORDS."""
    places = [(10 + 60 * (index % 10), 5 + 12 * (index // 10)) for index in range(num_words)]
    words = tuple(
        Word(text=WORDS[(index + shift) % len(WORDS)], box=Box(x0=x, y0=y, x1=x + 50, y1=y + 10))
        for index, (x, y) in enumerate(places)
    )
    return Page(width=640, height=20 + 12 * (1 + num_words // 10), words=words, image=image)


def document(*num_words: int, id: str = "d") -> Document:
    """Returns a document with a page for each of these numbers of words."""
    pages = tuple(page(count, shift=number) for number, count in enumerate(num_words))
    return Document(id=id, pages=pages)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A field of somebody else's own type."""

    label: str = "x"
    text: str = ""
    score: float = 0.5
    box: Box | None = None
    page: int = 0
    word_ids: tuple[int, ...] = ()
    start: int | None = None
    stop: int | None = None


def nothing_found() -> Extraction:
    """Returns an answer without a field."""
    times = Timings(encoding_seconds=0, model_seconds=0, decoding_seconds=0)
    return Extraction(document_id="x", fields=(), coverage=1, warnings=(), timings=times)


class OneWord:
    """An engine of OCR that reads one word."""

    name, version = "one", "1"

    def read(self, image: Image.Image) -> Sequence[Word]:
        return [Word(text="hi", box=Box(x0=1, y0=1, x1=20, y1=20))]


def scrambled(document: Document, seed: int = 1) -> tuple[Document, list[int]]:
    """Returns the document with its words in another order, and for each the number it had."""
    (page,) = document.pages
    numbers = list(range(len(page.words)))
    random.Random(seed).shuffle(numbers)
    words = tuple(page.words[index] for index in numbers)
    return replace(document, pages=(replace(page, words=words),)), numbers
