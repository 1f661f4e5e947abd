"""The guidelines of PrIeD-KIE (section 5.2) as settings, from public facts alone.

The paper states them for windows of tokens and DP-Adam. Nothing here reads a document: how many
there are, and how long they are, is what their owner declares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONG_DOCUMENT = 512
"""Words from which a document counts as long (guideline 3: far below or above 512 tokens)."""

VERY_SMALL = 149
"""Documents of FUNSD and XFUND, the corpora that the paper calls very small (table 1)."""

BATCHES, EPOCHS = 3, 50
"""Batches in an epoch, the fewest (so the largest) of 3 to 10, the best range; and its epochs."""


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Options with the reason for them."""

    reason: str
    settings: dict[str, Any]


def suggested(documents: int, words: int) -> list[Suggestion]:
    """Returns what the guidelines say of so many documents of about so many words."""
    is_long, is_very_small = words > LONG_DOCUMENT, documents <= VERY_SMALL
    tokens = 512 if is_long else 128
    return [
        Suggestion(
            reason="Guideline 1: large batches, a large learning rate, a small clipping norm.",
            settings={
                "sampling-rate": 1 / BATCHES,
                "expected-records": max(1, round(documents / BATCHES)),
                "steps": EPOCHS * BATCHES,
                "learning-rate": 5e-4,
                "decay": False,
                "clipping-norm": 0.1,
            },
        ),
        Suggestion(
            reason="Guideline 2: --start from public documents whose labels are like yours.",
            settings={},
        ),
        Suggestion(
            reason=f"Guideline 3: windows of {tokens} for {'long' if is_long else 'short'} "
            f"documents, {'dropout' if is_very_small else 'no dropout'} for "
            f"{'very few' if is_very_small else 'so many'}.",
            settings={"max-tokens": tokens, "dropout": 0.1 if is_very_small else 0.0},
        ),
        Suggestion(
            reason="Guideline 4: train all parameters where the machine can.",
            settings={"trained": "all"},
        ),
    ]
