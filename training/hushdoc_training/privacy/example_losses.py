"""Losses of examples: what a caller's function returns, and what its model may be given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.clipping.model_inputs import ModelInputs
from hushdoc_training.privacy.physical import PhysicalBatch

Example = TypeVar("Example")
ExampleLosses = Callable[[Sequence[Example]], torch.Tensor]
"""Returns one loss for each example of a list."""


def checked(losses: ExampleLosses[Example]) -> ExampleLosses[Example]:
    """Returns the same losses, which raise PrivacyError where no gradient can come of them."""

    def of(examples: Sequence[Example]) -> torch.Tensor:
        found = losses(examples)
        if not isinstance(found, torch.Tensor):
            raise PrivacyError(
                f"`losses` returned a {type(found).__name__} for {len(examples)} examples; "
                "expected a tensor with one loss for each example. Where they are several "
                "tensors, return `torch.stack(them)`."
            )
        if torch.is_grad_enabled() and not found.requires_grad:
            raise PrivacyError(
                f"`losses` returned numbers of type {found.dtype} for {len(examples)} examples "
                "that no gradient leads back from; expected losses that were computed from the "
                "model's trained parameters. Leave out `torch.no_grad`, `.detach()` and `.item()` "
                "there."
            )
        return found

    return of


def weighted(losses_of: ExampleLosses[Example], batch: PhysicalBatch[Example]) -> clipping.Losses:
    """Returns what computes each example's share in its record's loss."""

    def compute() -> torch.Tensor:
        losses = losses_of(batch.examples)
        return losses * losses.new_tensor(batch.weights)

    return compute


def by_record(losses: torch.Tensor, batch: PhysicalBatch[Any]) -> list[float]:
    """Returns the losses of a batch's records."""
    sums: dict[int, float] = {}
    for value, record in zip(losses.tolist(), batch.records, strict=True):
        sums[record] = sums.get(record, 0.0) + value
    return [value for record, value in sorted(sums.items()) if record >= 0]


@contextmanager
def watched(model: nn.Module, losses: ExampleLosses[Example]) -> Iterator[ExampleLosses[Example]]:
    """Yields the losses; inside the block the model takes nothing but examples."""
    expected = 0

    def visit(tensor: torch.Tensor) -> None:
        if tensor.dim() and len(tensor) != expected:
            raise _not_examples(tensor, expected)

    inputs = ModelInputs(model, visit)

    def of(examples: Sequence[Example]) -> torch.Tensor:
        nonlocal expected
        expected = len(examples)
        with inputs.watched():
            return losses(list(examples))  # a tuple would index a tensor by its axes

    with inputs:
        yield of


def _not_examples(tensor: torch.Tensor, expected: int) -> PrivacyError:
    return PrivacyError(
        f"The model was handed a tensor of shape {list(tensor.shape)} for a batch of {expected} "
        f"examples; expected {expected} entries, one for each example. Expand a constant to all "
        f"examples (`.expand({expected}, ...)`), or make it a buffer of the model."
    )
