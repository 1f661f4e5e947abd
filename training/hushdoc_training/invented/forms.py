"""Forms: every family of business forms, and what all of them have around their edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hushdoc_training.invented import (
    checkboxes,
    form_style,
    letters,
    page_elements,
    phrases,
    reports,
    requests,
)
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Sheet

FAMILIES: Mapping[str, Callable[[Draft, int], int]] = {
    "application": requests.application,
    "authorization": requests.authorization,
    "data_sheet": reports.data_sheet,
    "fax": letters.fax,
    "grid": requests.grid,
    "laboratory": reports.laboratory,
    "memo": letters.memo,
    "notice": letters.notice,
    "order": requests.order,
    "patchwork": reports.patchwork,
    "proposal": reports.proposal,
    "report": reports.report,
    "survey": reports.survey,
    "tick_boxes": reports.tick_boxes,
}


def form(family: str, provider: Provider, rng: Draws) -> Sheet:
    """Returns a page of this family."""
    width = rng.integer(730, 870)
    sheet = Sheet(
        width=width,
        height=round(width * rng.weighted(((1.294, 6.0), (1.414, 2.0), (1.1, 0.7), (0.8, 0.5)))),
        margin=rng.integer(34, 92),
        by_line=rng.flip(0.45),
    )
    draft = Draft(
        sheet=sheet,
        rng=rng,
        style=form_style.form_style(rng),
        trade=phrases.trade(rng),
        provider=provider,
        goal=round(sheet.height * min(0.94, rng.real(0.45, 1.4))) - 60,
        air=rng.real(0.5, 1.9),
        blank=rng.weighted(((0.04, 4.0), (0.15, 3.0), (0.35, 1.5), (0.7, 0.7))),
        boxes=rng.weighted(checkboxes.BOXES),
    )
    y = FAMILIES[family](draft, rng.integer(30, 90))
    page_elements.footer(draft, y)
    if rng.flip(0.5):
        page_elements.margin_code(draft)
    if rng.flip(0.14):
        page_elements.stamp(draft, 30, sheet.height - 60)
    return sheet
