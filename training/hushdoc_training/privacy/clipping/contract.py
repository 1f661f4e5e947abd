"""What every clipper returns, refuses and computes: losses, factors, norms and empty sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from hushdoc import arguments
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.plan import require_norm

Losses = Callable[[], torch.Tensor]
"""Runs the model's forward pass and returns one loss for every example, shape [examples]."""

# Every factor is smaller by this much, so that rounding can't lift a record above the bound.
SLACK = 1e-6
# What automatic clipping adds to a norm before it divides by it (Bu et al. 2023, section 3.3).
STABILITY = 0.01

CLIPPINGS = ("flat", "automatic", "layerwise")
"""Ways to bound a record's gradient, all by one L2 norm: what is longer is cut to the norm; all are
scaled to less than the norm, however short they are (AUTO-S of Bu, Wang, Zha and Karypis: Automatic
Clipping, 2023); each parameter's is cut to its share of the norm (McMahan et al. 2018)."""


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


@dataclass(frozen=True)
class Clipping:
    """How the gradients of records are bounded.

    Attributes:
        norm: Largest L2 norm of one record's gradient, all parameters together.
        kind: One of CLIPPINGS.
    """

    norm: float
    kind: str = "flat"

    def __post_init__(self) -> None:
        """Refuses a norm that bounds nothing."""
        arguments.choice(self.kind, CLIPPINGS, what="clipping")
        require_norm(self.norm)

    def shares(self, names: Iterable[str]) -> dict[str, float]:
        """Returns the norm of each parameter's gradient; the root of their squares' sum bounds all.

        Example:
            >>> Clipping(0.5, "layerwise").shares(["a", "b", "c", "d"])["a"]
            0.25
        """
        named = list(names)
        return dict.fromkeys(named, self.norm / math.sqrt(len(named)))

    def require_applicable(self, names: Iterable[str]) -> None:
        """Raises ValueError where a parameter's share of the norm would vanish."""
        if self.kind == "layerwise":
            require_norm(min(self.shares(names).values()))

    def reach(self, names: Iterable[str]) -> float:
        """Returns how far (L2) one record can move the sum over parameters, as it is applied."""
        if self.kind == "layerwise":
            return math.hypot(*self.shares(names).values())
        return self.norm

    def factors(self, squares: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns a factor for each parameter's gradient of each record, from squared norms.

        All are 0 for a record whose norm is not finite.
        """
        whole = torch.stack(list(squares.values())).sum(0)
        if self.kind == "layerwise":
            shares, finite = self.shares(squares), torch.isfinite(whole)
            return {
                name: clip_factors(square, shares[name]) * finite
                for name, square in squares.items()
            }
        if self.kind == "automatic":
            return dict.fromkeys(squares, automatic_factors(whole, self.norm))
        return dict.fromkeys(squares, clip_factors(whole, self.norm))


def clip_factors(squares: torch.Tensor, clipping_norm: float) -> torch.Tensor:
    """Returns a factor for each record's squared norm; 0 where it is not finite."""
    factors = (clipping_norm / squares.sqrt()).clamp(max=1.0) * (1 - SLACK)
    return _where_finite(squares, factors)


def automatic_factors(squares: torch.Tensor, clipping_norm: float) -> torch.Tensor:
    """Returns what scales each record to less than the norm; 0 where its own is not finite."""
    factors = clipping_norm / (squares.sqrt() + STABILITY) * (1 - SLACK)
    return _where_finite(squares, factors)


def _where_finite(squares: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(squares), factors, torch.zeros_like(factors))


def _mixes_records(module: nn.Module) -> bool:
    # SyncBatchNorm and InstanceNorm share this base; an InstanceNorm without running statistics
    # looks at one example at a time.
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return bool(module.track_running_stats)
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
