"""Fields as the views take them: hushdoc.Field, or anything with the same attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hushdoc.document.page import Box


class TaggedField(Protocol):
    """A field that some words of a page belong to."""

    @property
    def label(self) -> str:
        """The field's name."""

    @property
    def score(self) -> float:
        """From 0 to 1."""

    @property
    def page(self) -> int:
        """The page it stands on, from 0."""

    @property
    def word_ids(self) -> Sequence[int]:
        """Its words, as indices into the page's words."""


class PlacedField(Protocol):
    """A field that can be drawn on its page."""

    @property
    def label(self) -> str:
        """The field's name."""

    @property
    def score(self) -> float:
        """From 0 to 1."""

    @property
    def word_ids(self) -> Sequence[int]:
        """Its words, as indices into the page's words."""

    @property
    def box(self) -> Box:
        """Where it stands, in page pixels."""


class _TextField(Protocol):
    @property
    def label(self) -> str:
        """The field's name."""

    @property
    def text(self) -> str:
        """Its text."""

    @property
    def page(self) -> int:
        """The page it stands on, from 0."""

    @property
    def start(self) -> int | None:
        """Its first character in a plain text."""

    @property
    def stop(self) -> int | None:
        """One past its last character in a plain text."""


class RedactedField(_TextField, Protocol):
    """A field that can be removed from words or a plain text."""

    @property
    def word_ids(self) -> Sequence[int]:
        """Its words, as indices into the page's words."""


class ShownField(_TextField, Protocol):
    """A field that a web page can show."""

    @property
    def score(self) -> float:
        """From 0 to 1."""

    @property
    def box(self) -> Box | None:
        """Where it stands, in page pixels; None in a plain text."""
