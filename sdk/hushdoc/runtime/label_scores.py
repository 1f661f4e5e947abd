"""What a classification model answers: labels with scores, or that all are below the threshold.

Contract: as with `hushdoc.runtime.extraction`, the keys of `to_dict` are versioned by
`SCHEMA_VERSION` and never given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.provenance import Source
from hushdoc.runtime.extraction import Answer, Timings

SCHEMA_VERSION = 3

NOTHING_READ = "The model can read nothing in this document; its answer carries no information."
"""The warning with a coverage of 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelScore:
    """One label and how probable it is.

    Attributes:
        label: The label's name.
        score: From 0 to 1; calibrated where the artifact declares a calibration. By a curve that is
            the best label's alone: the others share what it leaves, by the model's own scores.
    """

    label: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification(Answer):
    """The class of a document; two answers are equal when all but their timings are.

    Attributes:
        document_id: The document's id.
        scores: The best labels, best first.
        below_threshold: Whether the best score is below the artifact's threshold.
        coverage: Share of the words, or for models of images of the pages, that the model read,
            from 0 to 1.
        warnings: What the caller should know about this answer, in words.
        timings: Where the time went.
        source: Where the words came from, as the document says; None where nobody read it.
        calibrated_on: The documents that scores were calibrated on; None where scores are the
            model's own, which order classes and are no shares of right answers.
    """

    document_id: str
    scores: tuple[LabelScore, ...]
    below_threshold: bool
    coverage: float
    warnings: tuple[str, ...]
    timings: Timings = field(compare=False)
    source: Source | None = None
    calibrated_on: str | None = None

    @property
    def label(self) -> str | None:
        """The best label; None where the model is too unsure, and `scores` still says which."""
        return None if self.below_threshold else self.scores[0].label

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "document_id": self.document_id,
            "label": self.label,
            "below_threshold": self.below_threshold,
            "calibrated_on": self.calibrated_on,
            "scores": [{"label": item.label, "score": item.score} for item in self.scores],
            "coverage": self.coverage,
            "warnings": list(self.warnings),
            "source": None if self.source is None else self.source.to_dict(),
            "timings": self.timings.to_dict(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassReading:
    """What a graph or table makes of one document, before calibration: scores [classes], 0 to 1."""

    raw_scores: npt.NDArray[np.float64]
    coverage: float
    warnings: tuple[str, ...]
