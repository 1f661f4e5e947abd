"""Fields of texts: from places in characters to fields of a text, or of a page's words."""

from __future__ import annotations

import numpy as np

from hushdoc.document import Page, union
from hushdoc.runtime.extraction import Field

Found = tuple[str, int, int, float]
"""Label, first character, one past the last, score."""


def of_text(text: str, label: str, start: int, stop: int, score: float) -> Field:
    """Returns a field of a plain text."""
    return Field(
        label=label,
        text=text[start:stop],
        score=score,
        box=None,
        page=0,
        word_ids=(),
        normalized=None,
        start=start,
        stop=stop,
    )


def of_page(page: Page, number: int, label: str, start: int, stop: int, score: float) -> Field:
    """Returns a field of the text that a page's words make, joined by single blanks."""
    ends = np.cumsum([len(word.text) + 1 for word in page.words])
    ids = range(int(np.searchsorted(ends, start, "right")), int(np.searchsorted(ends, stop)) + 1)
    words = page.words[ids.start : ids.stop]
    box = union(word.box for word in words)
    return Field(
        label=label,
        text=" ".join(word.text for word in words),
        score=score,
        box=box,
        page=number,
        word_ids=tuple(ids),
        normalized=box.normalized(width=page.width, height=page.height),
    )
