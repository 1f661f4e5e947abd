"""Summary: what labelled documents hold, counted for people, and their labels drawn on pages."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hushdoc.arguments import printable
from hushdoc.document.page import Box, union
from hushdoc.labels import LabelledDocument
from hushdoc_training.data.providers import doubts

_UNSPACED = re.compile(r"(?<=[\u3000-\u9fff\uf900-\ufaff\uff00-\uffef]) (?=\S)|"
                       r"(?<=\S) (?=[\u3000-\u9fff\uf900-\ufaff\uff00-\uffef])")  # fmt: skip
"""Blanks beside a character of Chinese or Japanese, which are written without."""


@dataclass(kw_only=True)
class Summary:
    """Counts of documents, words, labels and providers."""

    documents: int = 0
    pages: int = 0
    words: list[int] = field(default_factory=list)  # of each document
    images: int = 0  # pages that have one
    questions: int = 0
    unanswered: int = 0
    keys: Counter[str] = field(default_factory=Counter)
    spans: Counter[str] = field(default_factory=Counter)
    labelled: Counter[str] = field(default_factory=Counter)  # documents with the label
    examples: dict[str, str] = field(default_factory=dict)
    providers: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)

    def added(self, labelled: LabelledDocument) -> LabelledDocument:
        """Counts a document and returns it."""
        pages = labelled.document.pages
        self.documents += 1
        self.pages += len(pages)
        self.words.append(labelled.document.num_words)
        self.images += sum(page.image is not None for page in pages)
        self.questions += len(labelled.questions)
        self.unanswered += sum(not asked.answers for asked in labelled.questions)
        self.keys.update(asked.key for asked in labelled.questions if asked.key is not None)
        self.spans.update(span.label for span in labelled.spans)
        self.labelled.update({span.label for span in labelled.spans})
        for item in fields_of(labelled):
            self.examples.setdefault(item.label, item.text)
        self.providers.update([labelled.provider] if labelled.provider else [])
        self.types.update([labelled.document_type] if labelled.document_type else [])
        return labelled

    def lines(self) -> Iterator[str]:
        """Yields lines for people; values of documents stand in them."""
        words = sorted(self.words) or [0]
        yield (
            f"documents {self.documents}, pages {self.pages} ({self.images} with an image), words "
            f"{sum(words)}: {words[0]} to {words[-1]} a document, median {words[len(words) // 2]}"
        )
        if self.providers:
            name, most = self.providers.most_common(1)[0]
            yield (
                f"providers {len(self.providers)}, of {sum(self.providers.values())} documents; "
                f"most are of {printable(name, 60)}: {most}"
            )
            missing = self.documents - self.providers.total()
            yield from doubts([*self.providers.elements(), *[None] * missing])
        if self.types:
            found = ", ".join(
                f"{printable(name, 60)} {count}" for name, count in self.types.most_common(10)
            )
            yield f"types: {found}"
        if self.questions:
            keys = ", ".join(
                f"{printable(key, 40)} {count}" for key, count in self.keys.most_common(10)
            )
            unanswered = f", {self.unanswered} without an answer" if self.unanswered else ""
            yield f"questions {self.questions}{unanswered}{f'; keys: {keys}' if keys else ''}"
        if not self.spans:
            yield "no labels"
            return
        width = max(len("label"), *(len(printable(name, 40)) for name in self.spans))
        yield f"{'label':{width}}  {'spans':>7}  {'documents':>9}  first"
        for name, count in sorted(self.spans.items()):
            example = printable(self.examples[name], 40)
            yield (
                f"{printable(name, 40):{width}}  {count:>7}  {self.labelled[name]:>9}  {example}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledField:
    """A span as a view shows it: a field that nobody scored."""

    label: str
    text: str
    page: int
    box: Box
    word_ids: tuple[int, ...]
    score: float = math.nan
    start: int | None = None
    stop: int | None = None


def fields_of(labelled: LabelledDocument) -> Iterator[LabelledField]:
    """Yields the spans of a document with their words."""
    for span in labelled.spans:
        words = labelled.document.pages[span.page].words[span.start : span.stop]
        yield LabelledField(
            label=span.label,
            text=_joined(word.text for word in words),
            page=span.page,
            box=union(word.box for word in words),
            word_ids=tuple(range(span.start, span.stop)),
        )


def _joined(texts: Iterable[str]) -> str:
    """Returns words as one value for people."""
    return _UNSPACED.sub("", " ".join(texts))
