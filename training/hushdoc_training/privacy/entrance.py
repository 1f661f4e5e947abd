"""The entrance of a model: one entry for every row, however the batch was put together.

Clippers tell rows from constants by what a model is handed. So every tensor that is handed in has
one entry for each row; a constant of its own shape would be taken for rows as soon as a batch
happened to have as many. And a loss that builds its batch itself (stacks rows, looks them up in a
table) hands in results of functions of constants; a fresh view of each makes them inputs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils import _pytree as pytree

from hushdoc.errors import PrivacyError

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

    def enter(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        del module

        def fresh(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dim() and len(tensor) != expected:
                raise _not_rows(tensor, expected)
            return tensor.view_as(tensor)

        with torch._C.DisableTorchFunction():
            entered: tuple[Any, Any] = pytree.tree_map_only(torch.Tensor, fresh, (args, kwargs))
        return entered

    def of(rows: Sequence[Row]) -> torch.Tensor:
        nonlocal expected
        expected = len(rows)
        return losses(list(rows))  # a tuple would index a tensor by its axes

    handle = model.register_forward_pre_hook(enter, with_kwargs=True)
    try:
        yield of
    finally:
        handle.remove()


def _not_rows(tensor: torch.Tensor, expected: int) -> PrivacyError:
    return PrivacyError(
        f"The model was handed a tensor of shape {list(tensor.shape)} for a batch of {expected} "
        f"rows; expected {expected} entries, one for each row. Expand a constant to all rows "
        f"(`.expand({expected}, ...)`), or make it a buffer of the model."
    )
