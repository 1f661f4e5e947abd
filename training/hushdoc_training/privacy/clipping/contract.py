"""What every clipper returns, refuses and computes: losses, factors, norms and empty sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that training changes, by name; tied ones once."""
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
    """Returns a factor for each record's squared norm; 0 where it is not finite."""
    factors = (clipping_norm / squares.sqrt()).clamp(max=1.0) * (1 - SLACK)
    return torch.where(torch.isfinite(squares), factors, torch.zeros_like(factors))


def positive_norm(clipping_norm: float) -> float:
    """Returns the clipping norm, which must be positive and large enough for its square in fp32."""
    if not 0 < clipping_norm < float("inf"):
        raise ValueError(f"clipping_norm is {clipping_norm}; it must be positive and finite.")
    if clipping_norm < LEAST_NORM:
        raise ValueError(
            f"clipping_norm is {clipping_norm}; expected at least {LEAST_NORM}: squares of less "
            "vanish in float32. Multiply the losses and the clipping norm by the same constant."
        )
    return float(clipping_norm)


def _mixes_records(module: nn.Module) -> bool:
    # SyncBatchNorm and InstanceNorm share this base; an InstanceNorm without running statistics
    # looks at one example at a time.
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return bool(module.track_running_stats)
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
