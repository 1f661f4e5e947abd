"""ClassConfidence: how confident a table of hashed features is of the class of a whole text.

Where a label may never change within a text (`is_classifier`), the probability of the class with
the largest sum over hundreds of words is nearly 1, right or wrong. What separates right answers
from wrong ones is that class's margin, measured against the margin that random weights would give:
the sum of n independent weights grows like the square root of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.labels import OUTSIDE
from hushdoc.runtime.hashed import table as hashed_table
from hushdoc.runtime.hashed.table import HashedTable
from hushdoc.runtime.scoring import settings_errors

KEY = "class_confidence"
"""Key of the manifest's preprocessing that declares it; tables that classify must have it."""

MARGIN = "margin"
"""The only rule."""

FORBIDDEN = -1e6
"""At most this is the score of a change of label that never happens."""

SMALLEST, LARGEST = 1e-12, 1e12
"""Spreads between which nothing overflows or vanishes."""

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassConfidence:
    """How the classes of a text are scored; part of the artifact's signed manifest.

    By the rule MARGIN, `confidence` counts in units of the difference that two classes' sums have
    in a text of as many features whose weights are drawn at random; `spread` is the root mean
    square of the difference between two classes' weights in one row.
    """

    rule: str = MARGIN
    spread: float

    def __post_init__(self) -> None:
        """Refuses another rule, and a spread out of range."""
        if self.rule != MARGIN:
            raise ValueError(f"rule is {self.rule!r}; expected '{MARGIN}'")
        if type(self.spread) not in (int, float) or not SMALLEST <= self.spread <= LARGEST:
            raise ValueError(
                f"spread is {self.spread!r}; expected a number from {SMALLEST:g} to {LARGEST:g}"
            )

    @classmethod
    def of(cls, table: HashedTable) -> ClassConfidence:
        """Returns that of a table with at least two classes; its spread has six digits."""
        spread = min(max(hashed_table.spread(table), SMALLEST), LARGEST)
        return cls(spread=float(f"{spread:.6g}"))

    @classmethod
    def from_dict(cls, data: Any) -> ClassConfidence:
        """Returns what a manifest holds; ArtifactError BAD_MANIFEST where it is malformed."""
        with settings_errors("The rule for the scores of classes", code="BAD_MANIFEST"):
            return cls(**{"rule": None, **data})

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest."""
        return asdict(self)

    def unit(self, num_features: int) -> float:
        """Returns the difference that random weights give two classes' sums over so many rows."""
        return self.spread * math.sqrt(max(1, num_features))


def is_classifier(tags: Sequence[str], level: str, transitions: npt.NDArray[np.floating]) -> bool:
    """Returns whether a table classifies whole texts rather than finding fields in them.

    The `transitions` [labels, labels] of a classifier of sentences let no label follow another.
    """
    stay = np.eye(len(tags), dtype=bool)
    return bool(
        level == "sentence"
        and len(tags) > 1
        and OUTSIDE not in tags
        and (transitions[stay] == 0).all()
        and (transitions[~stay] <= FORBIDDEN).all()
    )


def confidence(sums: Scores, label: int, *, unit: float) -> float:
    """Returns how confident a table is of one class of a text, from 0 to 1; no probability.

    It is x / (1 + |x|), brought from -1..1 to 0..1, where x, the class's margin, is the logarithm
    of its odds against all others together, sums being counted in units. Unlike a probability this
    approaches 1 so slowly that two large margins remain distinguishable, and it is above one half
    where the odds are better than even.

    `sums` [labels] has the scores of all items added up, and `unit`, above 0, is the difference of
    two sums where nothing speaks for any class.
    """
    scaled = sums / unit
    others = np.delete(scaled, label)
    top = others.max()
    margin = float(scaled[label] - top - np.log(np.exp(others - top).sum()))
    rest = 0.5 / (1 + abs(margin))  # monotone to the last digit, as the quotient is not
    return 1 - rest if margin > 0 else rest
