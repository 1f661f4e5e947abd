"""The entrance of a model: one entry for every row, however the batch was put together.

Clippers tell rows from constants by what a model is handed. So every tensor that the model, or one
of its modules, is handed from outside has one entry for each row; a constant of its own shape would
be taken for rows as soon as a batch happened to have as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.entering import Entering

Row = TypeVar("Row")


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
