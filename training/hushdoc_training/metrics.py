"""Entity-level precision, recall and F1, as the CoNLL-2000 evaluation counts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
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


def entity_score(
    pairs: Iterable[tuple[Iterable[Span], Iterable[Span]]], *, label: str | None = None
) -> Score:
    """Returns the micro-averaged score over documents.

    Example:
        >>> gold = [Span(page=0, start=0, stop=2, label="total")]
        >>> entity_score([(gold, gold)]).f1
        1.0
    """
    found = expected = correct = 0
    for expected_spans, found_spans in pairs:
        left = {span for span in expected_spans if label in (None, span.label)}
        right = {span for span in found_spans if label in (None, span.label)}
        expected += len(left)
        found += len(right)
        correct += len(left & right)
    return Score(found=found, expected=expected, correct=correct)
