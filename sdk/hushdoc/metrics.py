"""Precision, recall and F1 of fields, by label; accuracy and ANLS of answers to questions.

**At their words** a field counts where a true one of its label has exactly its words: entities as
the CoNLL-2000 evaluation counts them (Tjong Kim Sang, Buchholz 2000), and seqeval after it. **By
value** it counts where a true field of its label in the same document has the same text, wherever
that stands and however often: the exact match of SROIE's third task (Huang et al. 2019). Texts are
equal where all but the width of their spaces is.

**Answers** are compared without case and width of spaces. ANLS is the mean of `nls` over questions
(Biten et al., Scene Text Visual Question Answering, ICCV 2019, eq. 1; at a similarity of exactly .5
it is .5, as in published evaluations, where the equation has 0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
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


NLS_THRESHOLD = 0.5
"""Least similarity of an answer that counts at all."""


def answer_of(text: str) -> str:
    """Returns what is compared of an answer.

    Example:
        >>> answer_of(" 12  Main St ")
        '12 main st'
    """
    return value_of(text).lower()


def exact_match(prediction: str | None, answers: Sequence[str]) -> float:
    """Returns 1 if the prediction is one of the answers, else 0.

    Of a question that has no answer, `answers` is empty, and a prediction of None is right.

    Example:
        >>> exact_match("ACME Ltd", ["acme ltd", "ACME"]), exact_match(None, [])
        (1.0, 1.0)
    """
    if prediction is None or not answers:
        return float(prediction is None and not answers)
    return float(answer_of(prediction) in map(answer_of, answers))


def nls(prediction: str | None, answers: Sequence[str]) -> float:
    """Returns the normalised Levenshtein similarity to the closest answer; 0 below NLS_THRESHOLD.

    Of a question that has no answer, `answers` is empty, and a prediction of None is right.

    Example:
        >>> nls("acme lt", ["ACME Ltd"]), nls("other", ["ACME Ltd"]), nls(None, ["ACME Ltd"])
        (0.875, 0.0, 0.0)
    """
    if prediction is None or not answers:
        return exact_match(prediction, answers)
    best = max(similarity(answer_of(prediction), answer_of(answer)) for answer in answers)
    return best if best >= NLS_THRESHOLD else 0.0


def similarity(one: str, other: str) -> float:
    """Returns 1 minus the Levenshtein distance over the longer length; 0 if either is empty.

    Example:
        >>> similarity("kitten", "sitting")
        0.5714285714285714
    """
    if not one or not other:
        return 0.0
    return 1 - _distance(one, other) / max(len(one), len(other))


def _distance(one: str, other: str) -> int:
    """Returns how many insertions, deletions and replacements make one text the other.

    The recurrence goes a whole row at a time, as bits of one integer (Myers 1999, Hyyrö 2003).
    """
    shorter, longer = sorted((one, other), key=len)
    places = dict.fromkeys(shorter, 0)
    for place, letter in enumerate(longer):
        if letter in places:
            places[letter] |= 1 << place
    everywhere = (1 << len(longer)) - 1
    distance, last = len(longer), len(longer) - 1
    # Where a row is one more, and one less, than at the place before.
    more, less = everywhere, 0
    for letter in shorter:
        equal = places[letter]
        kept = (((equal & more) + more) ^ more) | equal | less
        # The same of the row against the one above.
        grown, shrunk = less | (everywhere & ~(kept | more)), kept & more
        distance += (grown >> last) - (shrunk >> last)
        grown, shrunk = grown << 1 | 1, shrunk << 1
        more, less = (shrunk | ~(kept | grown)) & everywhere, grown & kept & everywhere
    return distance
