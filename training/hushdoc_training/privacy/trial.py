"""The trial before the first step: the clipper, on a few rows, against one-by-one gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.placement import Placement

Row = TypeVar("Row")

RECORDS = 3
ROWS_OF_EACH = 2


def require_exact(
    clipper: clipping.Clipper,
    placement: Placement,
    records: Iterable[Sequence[Row]],
    losses: Callable[[Sequence[Row]], torch.Tensor],
    *,
    tolerance: float,
) -> None:
    """Returns if clipped gradients are those of single records; releases nothing.

    Args:
        clipper: The one that training will use.
        placement: The trained parameters.
        records: The first of them that have rows are tried.
        losses: One for each row, the same whenever it is asked.
        tolerance: Largest relative difference of a norm or a sum.

    Raises:
        PrivacyError: They are not, a loss depends on other rows, a parameter is never used, or no
            record has a row; the message names which.
    """
    tried = islice((record for record in records if len(record)), RECORDS)
    rows = [row for record in tried for row in record[:ROWS_OF_EACH]]
    if not rows:
        raise PrivacyError("No record has a row, so there is nothing to train on. Check the data.")
    rows = rows * 2 if len(rows) == 1 else rows  # rows need a neighbour to be told apart
    found = losses(rows)
    if found.shape != (len(rows),):
        raise PrivacyError(
            f"`losses` returned shape {list(found.shape)} for {len(rows)} rows; expected one loss "
            'for each row. Leave out the mean over the batch (reduction="none"); where a row has '
            "several tokens, take the mean over its own."
        )
    _require_used(found, placement)
    clipping.check(
        clipper,
        lambda chosen: losses([rows[index] for index in chosen]),
        rows=len(rows),
        tolerance=tolerance,
    )


def _require_used(losses: torch.Tensor, placement: Placement) -> None:
    used: set[str] = set()
    differentiate(losses.sum(), placement.parameters, lambda name, _: used.add(name))
    unused = [name for name in placement.parameters if name not in used]
    if unused:
        raise PrivacyError(
            f"{len(unused)} trainable parameters got no gradient from any tried row "
            f"({', '.join(unused[:3])}), so they would collect noise without learning. Freeze "
            "them, or give `trial` records that use them."
        )
