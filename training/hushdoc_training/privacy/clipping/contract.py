"""The contract of every clipper, and the few lines of arithmetic that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import nn

from hushdoc.errors import PrivacyError

Losses = Callable[[], torch.Tensor]
"""Runs the model's forward pass and returns one loss for every example, shape [examples]."""

# Every factor is smaller by this much, so that rounding can't lift a record above the bound.
SLACK = 1e-6
# Squares of what is near a smaller norm would vanish in fp32, and with them the bound.
LEAST_NORM = 1e-8


@dataclass(frozen=True, kw_only=True)
class ClippedBatch:
    """What a clipper saw of one physical batch: private, for the trainer's eyes only.

    Attributes:
        norms: Norm of every record's gradient before clipping, fp32, shape [records].
        losses: Loss of every example, detached, shape [examples].
        nonfinite: How many records had an infinite or undefined gradient; they added nothing.
        squares: Squared norm of every record's gradient, parameter by parameter.
    """

    norms: torch.Tensor
    losses: torch.Tensor
    nonfinite: int
    squares: Mapping[str, torch.Tensor] = field(default_factory=dict, repr=False)


class Clipper(Protocol):
    """Adds up clipped gradients of records.

    Attributes:
        model: The model whose trainable parameters are differentiated.
        clipping_norm: The norm that no record's gradient exceeds.
        sums: The running sum for every trainable parameter by its name, fp32, not divided. Of a
            model that is sharded over processes it is the sum over all of them, and each has its
            shard of it; then all call every method together.
    """

    model: nn.Module
    clipping_norm: float
    sums: dict[str, torch.Tensor]

    def add(
        self, losses: Losses, records: torch.Tensor, *, weights: torch.Tensor | None = None
    ) -> ClippedBatch:
        """Adds the clipped gradients of the records of one physical batch.

        Args:
            losses: Runs the forward pass.
            records: int64, shape [examples]: which record (0, 1, ...) an example belongs to. -1
                marks an example of padding, which counts for nothing.
            weights: What an example's loss is multiplied by, shape [examples]; 1 by default. For a
                mean over the chunks of a document 1 / chunks, for noise multiplicity 1 /
                multiplicity.

        Returns:
            Norms, losses and the number of records left out.

        Raises:
            PrivacyError: A trainable parameter is used in a way that can't be followed exactly.
        """
        ...

    def add_large(self, losses: Iterable[Losses]) -> ClippedBatch:
        """Adds one record that is too large for one batch.

        Args:
            losses: The record's parts; their losses are summed as they come. Where the model is
                sharded, every process gives as many parts of the same record, which are its own.

        Returns:
            Its norm, and the losses of all examples of all parts.
        """
        ...

    def clear(self) -> None:
        """Sets all sums to zero."""
        ...


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that training changes, by name; tied ones once.

    Raises:
        PrivacyError: Nothing is trainable, or a layer mixes records by its very nature.
    """
    for name, module in model.named_modules():
        if _mixes_records(module):
            raise PrivacyError(
                f"The layer '{name}' ({type(module).__name__}) keeps statistics over a batch: it "
                "mixes records, so clipping one does not bound its influence. Replace it with "
                "GroupNorm or LayerNorm."
            )
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise PrivacyError(
            "Every parameter of the model is frozen, so there is nothing to train. Unfreeze at "
            "least the output layer."
        )
    return parameters


def clip_factors(squares: torch.Tensor, clipping_norm: float) -> torch.Tensor:
    """Returns what every record's gradient is multiplied by; 0 where it is not finite.

    Args:
        squares: Squared norms of the records' gradients, shape [records].
        clipping_norm: The bound, > 0.

    Examples:
        >>> clip_factors(torch.tensor([16.0, 0.25, float("inf")]), 1.0)
        tensor([0.2500, 1.0000, 0.0000])
    """
    factors = (clipping_norm / squares.sqrt()).clamp(max=1.0) * (1 - SLACK)
    return torch.where(torch.isfinite(squares), factors, torch.zeros_like(factors))


def positive_norm(clipping_norm: float) -> float:
    """Returns the clipping norm.

    Raises:
        ValueError: It is not a positive number, or so small that squares vanish in fp32.
    """
    if not 0 < clipping_norm < float("inf"):
        raise ValueError(f"clipping_norm is {clipping_norm}; it must be positive and finite.")
    if clipping_norm < LEAST_NORM:
        raise ValueError(
            f"clipping_norm is {clipping_norm}; expected at least {LEAST_NORM}: squares of less "
            "vanish in float32. Multiply the losses and the clipping norm by the same constant."
        )
    return float(clipping_norm)


def zeros(parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns an empty sum for every parameter."""
    return {
        name: torch.zeros_like(p, dtype=torch.float32, memory_format=torch.contiguous_format)
        for name, p in parameters.items()
    }


def _mixes_records(module: nn.Module) -> bool:
    # SyncBatchNorm and InstanceNorm share this base; an InstanceNorm without running statistics
    # looks at one example at a time.
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return bool(module.track_running_stats)
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
