"""Losses of rows: what a caller's function has to return, and each row's share in its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.clipping.model_inputs import Entering
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


@contextmanager
def watched(
    model: nn.Module, losses: Callable[[Sequence[Row]], torch.Tensor]
) -> Iterator[Callable[[Sequence[Row]], torch.Tensor]]:
    """Yields the losses; inside the block the model takes nothing but rows.

    Args:
        model: What the losses call.
        losses: One for each row.
    """
    expected = 0

    def visit(tensor: torch.Tensor) -> None:
        if tensor.dim() and len(tensor) != expected:
            raise _not_rows(tensor, expected)

    entering = Entering(model, visit)

    def of(rows: Sequence[Row]) -> torch.Tensor:
        nonlocal expected
        expected = len(rows)
        with entering.open():
            return losses(list(rows))  # a tuple would index a tensor by its axes

    with entering:
        yield of


def _not_rows(tensor: torch.Tensor, expected: int) -> PrivacyError:
    return PrivacyError(
        f"The model was handed a tensor of shape {list(tensor.shape)} for a batch of {expected} "
        f"rows; expected {expected} entries, one for each row. Expand a constant to all rows "
        f"(`.expand({expected}, ...)`), or make it a buffer of the model."
    )
