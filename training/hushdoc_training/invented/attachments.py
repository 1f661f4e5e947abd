"""Attachments: covering letters and terms, which make several pages of a document.

They name neither its company nor anything else that is asked about, so that what answers a question
stands where its words are said to be.
"""

from __future__ import annotations

from hushdoc_training.invented import (
    checkboxes,
    form_style,
    page_elements,
    phrases,
)
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Sheet


def attachment(provider: Provider, width: int, height: int, rng: Draws, *, cover: bool) -> Sheet:
    """Returns a page of running text as large as the document's own page."""
    sheet = Sheet(width=width, height=height, margin=rng.integer(44, 80), by_line=rng.flip(0.5))
    draft = Draft(
        sheet=sheet,
        rng=rng,
        style=form_style.form_style(rng),
        trade=phrases.trade(rng),
        provider=provider,
        goal=round(height * rng.real(0.3, 0.9)),
        air=rng.real(0.7, 1.5),
        blank=0.0,
        boxes=rng.weighted(checkboxes.BOXES),
    )
    x0, x1, y = draft.left, draft.right, rng.integer(50, 110)
    if cover:
        y = draft.put(rng.word("attachments.openings"), x0, x1, y, draft.style.body).y1 + 12
    else:
        y = page_elements.title(draft, y, rng.word("attachments.titles"))
    while True:
        if not cover:
            y = page_elements.heading(draft, x0, x1, y)
        y = page_elements.paragraph(draft, x0, x1, y) + draft.gap
        if not draft.more(y + 80):
            break
    if cover:
        draft.put(rng.word("attachments.closings"), x0, x1, y + 10, draft.style.body)
    return sheet
