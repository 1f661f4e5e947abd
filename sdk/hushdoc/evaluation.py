"""Evaluation: what was found in labelled documents, counted by label, by value and by document.

Every number is exact, without noise, and about these documents: no guarantee of a model covers what
is said of the documents that it is tried on.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument
from hushdoc.metrics import LabelCounts, macro_f1, value_of

NOTE = (
    "Exact numbers about the documents they were counted on, without noise: no guarantee covers "
    "them. Of private documents they are as private as the documents, and what is decided by "
    "them, a setting or a release, depends on the documents."
)
"""What stands beside every such score."""

BINS = 10
"""Of equal width, into which scores are sorted to see whether they are shares of right answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A field of a document, expected or found.

    Attributes:
        label: Its name.
        page: From 0.
        words: Indices of its words on the page.
        text: What they say.
        score: The model's, from 0 to 1; None where there is none.
    """

    label: str
    page: int
    words: frozenset[int]
    text: str
    score: float | None = None

    @property
    def place(self) -> tuple[str, Any]:
        """What it is compared by at its words."""
        return self.label, (self.page, self.words)

    @property
    def value(self) -> tuple[str, str]:
        """What it is compared by regardless of its place."""
        return self.label, value_of(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentResult:
    """One document's fields at their words: expected and found, missed, and found wrongly."""

    document: Document
    right: tuple[Entity, ...]
    missed: tuple[Entity, ...]
    wrong: tuple[Entity, ...]

    @property
    def mistakes(self) -> int:
        """How many were missed or are wrong."""
        return len(self.missed) + len(self.wrong)


class Bin(NamedTuple):
    """Fields whose scores are in one range."""

    start: float
    stop: float
    found: int
    mean_score: float
    right: float  # share of `found`


class Evaluation:
    """Counts documents one by one; nothing but the worst of them is kept.

    Attributes:
        labels: What the model can find. Other labels of documents are left out of every score.
        documents: How many were counted.
        at_words: Counts of fields that are right where their words are.
        by_value: Counts of fields that are right where their texts are.
        all_right: Documents without a mistake, at the words and by value.
        left_out: Fields of labels that the model does not know.
    """

    def __init__(self, labels: Iterable[str], *, keep: int = 5) -> None:
        """Begins with nothing counted; `keep` is how many documents of most mistakes are kept."""
        self.labels = frozenset(labels)
        self.documents = 0
        self.at_words, self.by_value = LabelCounts(), LabelCounts()
        self.all_right = {"at_words": 0, "by_value": 0}
        self.left_out: Counter[str] = Counter()
        self._keep = keep
        self._worst: list[tuple[int, int, DocumentResult]] = []
        self._sums = [[0, 0.0, 0] for _ in range(BINS)]  # found, sum of scores, right

    def add(self, labelled: LabelledDocument, found: Sequence[Entity]) -> DocumentResult:
        """Counts what was found in one document, and returns what is right and what is not."""
        every = entities_of(labelled)
        expected = [item for item in every if item.label in self.labels]
        self.left_out.update(item.label for item in every if item.label not in self.labels)
        true = {item.place for item in expected}
        seen = {item.place for item in found}
        result = DocumentResult(
            document=labelled.document,
            right=tuple(item for item in found if item.place in true),
            missed=tuple(item for item in expected if item.place not in seen),
            wrong=tuple(item for item in found if item.place not in true),
        )
        values = {item.value for item in expected}, {item.value for item in found}
        self.at_words.add(true, seen)
        self.by_value.add(*values)
        self.all_right["at_words"] += not result.mistakes
        self.all_right["by_value"] += values[0] == values[1]
        self._count_scores(found, true)
        self._keep_worst(result)
        self.documents += 1
        return result

    @property
    def worst(self) -> list[DocumentResult]:
        """The documents with most mistakes, those with most first."""
        return [result for _, _, result in sorted(self._worst, reverse=True)]

    @property
    def absent(self) -> list[str]:
        """Labels of the model that no document has; all that is found of them is wrong."""
        return sorted(self.labels - self.at_words.expected.keys())

    @property
    def bins(self) -> list[Bin]:
        """Fields by their scores; ranges without a field are left out."""
        return [
            Bin(number / BINS, (number + 1) / BINS, int(found), total / found, right / found)
            for number, (found, total, right) in enumerate(self._sums)
            if found
        ]

    @property
    def calibration_error(self) -> float | None:
        """Mean distance of scores from shares of right answers, over `bins`; None without scores.

        Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks" (2017), eq. 3.
        """
        count = sum(item.found for item in self.bins)
        if not count:
            return None
        return sum(item.found * abs(item.mean_score - item.right) for item in self.bins) / count

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        error = self.calibration_error
        return {
            "documents": self.documents,
            "documents_all_right": dict(self.all_right),
            "at_words": _scores(self.at_words),
            "by_value": _scores(self.by_value),
            "labels_left_out": dict(sorted(self.left_out.items())),
            "labels_absent": self.absent,
            "scores": [item._asdict() for item in self.bins],
            "calibration_error": None if error is None else round(error, 4),
            "note": NOTE,
        }

    def _count_scores(self, found: Iterable[Entity], true: Collection[Any]) -> None:
        for item in found:
            if item.score is not None:
                at = min(BINS - 1, int(BINS * item.score))
                self._sums[at][0] += 1
                self._sums[at][1] += item.score
                self._sums[at][2] += item.place in true

    def _keep_worst(self, result: DocumentResult) -> None:
        """Keeps the first of several with as many mistakes."""
        if result.mistakes and self._keep:
            heapq.heappush(self._worst, (result.mistakes, -self.documents, result))
            if len(self._worst) > self._keep:
                heapq.heappop(self._worst)


def entities_of(labelled: LabelledDocument) -> list[Entity]:
    """Returns the fields that a document is labelled with."""
    return [
        Entity(
            label=span.label,
            page=span.page,
            words=frozenset(range(span.start, span.stop)),
            text=" ".join(
                word.text
                for word in labelled.document.pages[span.page].words[span.start : span.stop]
            ),
        )
        for span in labelled.spans
    ]


def _scores(counts: LabelCounts) -> dict[str, Any]:
    labels = counts.by_label()
    return {
        "micro": counts.total().to_dict(),
        "macro_f1": round(macro_f1(labels), 4),
        "labels": {label: score.to_dict() for label, score in labels.items()},
    }
