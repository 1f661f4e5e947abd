"""Fields as the views take them: hushdoc.Field, or anything with the attributes a view reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hushdoc.document.page import Box


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
        """From 0 to 1."""

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
