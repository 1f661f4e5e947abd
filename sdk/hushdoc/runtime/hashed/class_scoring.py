"""ClassConfidence: how sure a table is of which kind a whole text is.

Where a label may never change within a text (`is_classifier`), all labellings but a few have no
weight at all, and the kind of the largest sum over hundreds of words has nearly all of it, right or
wrong. What tells right from wrong is how far that kind leads, against how far chance would take it:
the sum of n numbers grows like the root of n where they say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import ArtifactError
from hushdoc.labels import OUTSIDE
from hushdoc.runtime.hashed import table as hashed_table
from hushdoc.runtime.hashed.table import HashedTable

KEY = "class_confidence"
"""Key of the manifest's preprocessing that states it; without, scores are those of the chain."""

LEAD = "lead"
"""The only rule."""

FORBIDDEN = -1e6
"""At most this is the score of a change of label that never happens."""

SMALLEST, LARGEST = 1e-12, 1e12
"""Spreads between which nothing overflows or vanishes."""

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassConfidence:
    """How sure a table of kinds is; part of the artifact's signed manifest.

    Attributes:
        rule: LEAD: `clearness`, in units of what two kinds' sums differ by in a text of as many
            features whose weights are drawn at random.
        spread: What two kinds' weights in one row differ by, as a root mean square.

    Example:
        >>> ClassConfidence(spread=0.5).unit(16)
        2.0
    """

    rule: str = LEAD
    spread: float

    def __post_init__(self) -> None:
        """Refuses what is no such rule."""
        if self.rule != LEAD:
            raise ValueError(f"rule is {self.rule!r}; expected '{LEAD}'")
        if type(self.spread) not in (int, float) or not SMALLEST <= self.spread <= LARGEST:
            raise ValueError(
                f"spread is {self.spread!r}; expected a number from {SMALLEST:g} to {LARGEST:g}"
            )

    @classmethod
    def of(cls, table: HashedTable) -> ClassConfidence:
        """Returns that of a table with at least two kinds, whose spread is told to six digits."""
        found = min(max(hashed_table.spread(table), SMALLEST), LARGEST)
        return cls(spread=float(f"{found:.6g}"))

    @classmethod
    def stated(cls, settings: Mapping[str, Any]) -> ClassConfidence | None:
        """Returns what a manifest's preprocessing states; None where it says nothing of it.

        Raises:
            ArtifactError: BAD_MANIFEST, as `from_dict` raises it.
        """
        return cls.from_dict(settings[KEY]) if KEY in settings else None

    @classmethod
    def from_dict(cls, data: Any) -> ClassConfidence:
        """Returns what a manifest holds.

        Raises:
            ArtifactError: BAD_MANIFEST: a key is unknown, missing or of the wrong type, or the rule
                is another.
        """
        try:
            return cls(**{"rule": None, **data})
        except (TypeError, ValueError) as error:
            raise ArtifactError(
                f"How kinds of texts are scored can't be read: {error}. Export the artifact again "
                "with this version of hushdoc.",
                code="BAD_MANIFEST",
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest."""
        return asdict(self)

    def unit(self, num_features: int) -> float:
        """Returns what two kinds' sums over a text differ by where its words say nothing.

        Args:
            num_features: How many rows are added up.
        """
        return self.spread * math.sqrt(max(1, num_features))


def is_classifier(tags: Sequence[str], level: str, transitions: npt.NDArray[np.floating]) -> bool:
    """Returns whether a table tells which kind a whole text is of, not what stands where in it.

    Args:
        tags: The labels of its items.
        level: "sentence" or "token": what an item is.
        transitions: Shape [labels, labels]; those of kinds let no label follow another.

    Example:
        >>> never = np.array([[0.0, -1e6], [-1e6, 0.0]])
        >>> is_classifier(["law", "sea"], "sentence", never)
        True
        >>> is_classifier(["O", "law"], "sentence", never)
        False
    """
    stay = np.eye(len(tags), dtype=bool)
    return bool(
        level == "sentence"
        and len(tags) > 1
        and OUTSIDE not in tags
        and (transitions[stay] == 0).all()
        and (transitions[~stay] <= FORBIDDEN).all()
    )


def clearness(sums: Scores, label: int, *, unit: float) -> float:
    """Returns how clear it is that a text is of one kind, from 0 to 1; no probability.

    It is x / (1 + |x|), brought from -1..1 to 0..1, where x is the logarithm of the kind's odds
    against all others together, sums being counted in units. Unlike a probability this comes close
    to 1 so slowly that the clearer of two clear kinds can still be told, and it is above one half
    where the odds are better than even.

    Args:
        sums: Shape [labels]: the scores of all items added up.
        label: The kind asked for.
        unit: What two sums differ by where nothing speaks for any kind; above 0.

    Example:
        >>> clearness(np.array([3.0, 0.0]), 0, unit=1.0), clearness(np.zeros(2), 1, unit=1.0)
        (0.875, 0.5)
    """
    told = sums / unit
    others = np.delete(told, label)
    top = others.max()
    odds = float(told[label] - top - np.log(np.exp(others - top).sum()))
    rest = 0.5 / (1 + abs(odds))  # monotone to the last digit, as the quotient is not
    return 1 - rest if odds > 0 else rest
