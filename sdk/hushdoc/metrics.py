"""Precision, recall and F1 of fields, by label: at their very words, or by their values.

**At their words** a field counts where a true one of its label has exactly its words: entities as
the CoNLL-2000 evaluation counts them (Tjong Kim Sang, Buchholz 2000), and seqeval after it. **By
value** it counts where a true field of its label in the same document has the same text, wherever
that stands and however often: the exact match of SROIE's third task (Huang et al. 2019). Texts are
equal where all but the width of their spaces is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from hushdoc.labels import Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How many fields were found; a field counts only with its exact words and its label."""

    found: int
    expected: int
    correct: int

    @property
    def precision(self) -> float:
        """Correct among found; 0 where nothing was found."""
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Correct among expected; 0 where nothing was expected."""
        return self.correct / self.expected if self.expected else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.found + self.expected
        return 2 * self.correct / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Returns counts and ratios for a report."""
        return {
            **asdict(self),
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
            "f1": round(self.f1, 4),
        }


@dataclass(kw_only=True, slots=True)
class LabelCounts:
    """What was expected, found and right so far, by label."""

    expected: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        expected: Iterable[tuple[str, Hashable]],
        found: Iterable[tuple[str, Hashable]],
    ) -> None:
        """Counts a document's (label, what) of either side; what is there several times is one."""
        left, right = set(expected), set(found)
        self.expected.update(label for label, _ in left)
        self.found.update(label for label, _ in right)
        self.correct.update(label for label, _ in left & right)

    def by_label(self) -> dict[str, Score]:
        """Returns the score of every label that was expected or found, sorted by name."""
        return {
            label: Score(
                found=self.found[label], expected=self.expected[label], correct=self.correct[label]
            )
            for label in sorted(self.expected | self.found)
        }

    def total(self) -> Score:
        """Returns the micro average: all fields count alike."""
        return Score(
            found=self.found.total(),
            expected=self.expected.total(),
            correct=self.correct.total(),
        )


def macro_f1(scores: Mapping[str, Score]) -> float:
    """Returns the macro average: all labels count alike; 0 where there is none.

    Example:
        >>> macro_f1({"a": Score(found=1, expected=1, correct=1),
        ...           "b": Score(found=0, expected=3, correct=0)})
        0.5
    """
    return fmean(score.f1 for score in scores.values()) if scores else 0.0


def value_of(text: str) -> str:
    """Returns what is compared of a field's text.

    Example:
        >>> value_of(" 12  Main St ")
        '12 Main St'
    """
    return " ".join(text.split())


def entity_score(
    pairs: Iterable[tuple[Iterable[Span], Iterable[Span]]], *, label: str | None = None
) -> Score:
    """Returns the micro-averaged score over documents of one label or all, at the words.

    Example:
        >>> gold = [Span(page=0, start=0, stop=2, label="total")]
        >>> entity_score([(gold, gold)]).f1
        1.0
    """
    counts = LabelCounts()
    for expected, found in pairs:
        counts.add(
            *(
                [(span.label, span) for span in spans if label in (None, span.label)]
                for spans in (expected, found)
            )
        )
    return counts.total()
