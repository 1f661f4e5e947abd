"""Fields and answers as the views take them: ours, or anything with the attributes a view reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hushdoc.arguments import printable
from hushdoc.document.page import Box
from hushdoc.document.provenance import Source


class ViewedField(Protocol):
    """A field on a page or in a plain text."""

    @property
    def label(self) -> str:
        """The field's name."""

    @property
    def text(self) -> str:
        """Its text."""

    @property
    def score(self) -> float:
        """From 0 to 1; NaN where nobody scored it."""

    @property
    def page(self) -> int:
        """The page it stands on, from 0."""

    @property
    def box(self) -> Box | None:
        """Where it stands, in page pixels; None in a plain text."""

    @property
    def word_ids(self) -> Sequence[int]:
        """Its words, as indices into the page's words."""

    @property
    def start(self) -> int | None:
        """Its first character in a plain text."""

    @property
    def stop(self) -> int | None:
        """One past its last character in a plain text."""


class PlacedField(ViewedField, Protocol):
    """A field that can be drawn on its page."""

    @property
    def box(self) -> Box:
        """Where it stands, in page pixels."""


class ShownAnswer(Protocol):
    """An answer that a view can show: hushdoc.Extraction, or anything with its attributes."""

    @property
    def fields(self) -> Sequence[ViewedField]:
        """The fields."""

    @property
    def below_threshold(self) -> Sequence[ViewedField]:
        """Fields whose score is below the threshold."""

    @property
    def coverage(self) -> float:
        """Share of the words that were read."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the caller should know."""

    @property
    def source(self) -> Source | None:
        """Where the words came from; None where a caller passed them."""

    @property
    def calibrated_on(self) -> str | None:
        """The documents that scores were calibrated on; None where they are not calibrated."""


def score_note(calibrated_on: str | None) -> str:
    """Returns what scores mean that were calibrated on such documents, or were not."""
    if calibrated_on is None:
        return (
            "Scores are the model's own probabilities and not calibrated: a wrong answer can have "
            "a high one."
        )
    return (
        f"Scores were calibrated on {printable(calibrated_on, limit=200)}; on other documents they "
        "can be too high."
    )
