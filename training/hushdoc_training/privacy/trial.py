"""The trial before the first step: the clipper, on a few rows, against one-by-one gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping

Row = TypeVar("Row")

RECORDS = 3
ROWS_OF_EACH = 2


def require_exact(
    clipper: clipping.Clipper,
    parameters: Mapping[str, nn.Parameter],
    records: Iterable[Sequence[Row]],
    losses: Callable[[Sequence[Row]], torch.Tensor],
    *,
    tolerance: float,
) -> None:
    """Returns if clipped gradients are those of single records; releases nothing.

    Args:
        clipper: The one that training will use.
        parameters: The trained ones, by name.
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
    _require_used(found, parameters)
    clipping.check(
        clipper,
        lambda chosen: losses([rows[index] for index in chosen]),
        rows=len(rows),
        tolerance=tolerance,
    )


def _require_used(losses: torch.Tensor, parameters: Mapping[str, nn.Parameter]) -> None:
    gradients = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    unused = [name for name, found in zip(parameters, gradients, strict=True) if found is None]
    if unused:
        raise PrivacyError(
            f"{len(unused)} trainable parameters got no gradient from any tried row "
            f"({', '.join(unused[:3])}), so they would collect noise without learning. Freeze "
            "them, or give `trial` records that use them."
        )
