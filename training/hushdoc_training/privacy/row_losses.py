"""Losses of rows: what a caller's function has to return, and each row's share in its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.physical import PhysicalBatch

Row = TypeVar("Row")
RowLosses = Callable[[Sequence[Row]], torch.Tensor]
"""Returns one loss for each row of a list."""


def checked(losses: RowLosses[Row]) -> RowLosses[Row]:
    """Returns the same losses, which raise PrivacyError where no gradient can come of them."""

    def of(rows: Sequence[Row]) -> torch.Tensor:
        found = losses(rows)
        if not isinstance(found, torch.Tensor):
            raise PrivacyError(
                f"`losses` returned a {type(found).__name__} for {len(rows)} rows; expected a "
                "tensor with one loss for each row. Where they are several tensors, return "
                "`torch.stack(them)`."
            )
        if torch.is_grad_enabled() and not found.requires_grad:
            raise PrivacyError(
                f"`losses` returned numbers of type {found.dtype} for {len(rows)} rows that no "
                "gradient leads back from; expected losses that were computed from the model's "
                "trained parameters. Leave out `torch.no_grad`, `.detach()` and `.item()` there."
            )
        return found

    return of


def weighted(losses_of: RowLosses[Row], batch: PhysicalBatch[Row]) -> clipping.Losses:
    """Returns what computes each row's share in its record's loss."""

    def compute() -> torch.Tensor:
        losses = losses_of(batch.rows)
        return losses * losses.new_tensor(batch.weights)

    return compute


def by_record(losses: torch.Tensor, batch: PhysicalBatch[Any]) -> list[float]:
    """Returns the losses of a batch's records."""
    sums: dict[int, float] = {}
    for value, record in zip(losses.tolist(), batch.records, strict=True):
        sums[record] = sums.get(record, 0.0) + value
    return [value for record, value in sorted(sums.items()) if record >= 0]
