"""A spy at whitened layers: what scales their inputs, and what their change makes of the weights.

What an optimizer moved there is in no file: it is the change, which is merged into the layer beside
it. The sum is written down here once more, on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from hushdoc_training.models.whitening import Whitened


@dataclass(kw_only=True)
class WhiteningSpy:
    """Notes each whitened layer as it first is; `look` is a hook of torch's for all modules."""

    digest: Callable[[torch.Tensor], str]
    layers: dict[Whitened, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def look(self, module: nn.Module, *_: Any) -> None:
        """Notes the weights and the bias of the layer that a whitened one stands beside."""
        if isinstance(module, Whitened) and module not in self.layers:
            own = module.layer
            self.layers[module] = own.weight.detach().clone(), own.bias.detach().clone()

    @property
    def scales(self) -> list[str]:
        """What tells the means and directions of all layers."""
        return [self.digest(value) for one in self.layers for value in (one.mean, one.directions)]

    def merged(self, weights: list[str], path: Path) -> list[str]:
        """Returns digests of weights, those of a change replaced by what it made of its layer.

        They stay as they are unless tensors of the file are the layer's with the change added.
        """
        replaced = {}
        released = list(load_file(path).values()) if self.layers else []
        for one, (weight, bias) in self.layers.items():
            change = one.change.weight.detach() @ one.directions
            shift = one.change.bias.detach() - change @ one.mean
            pairs = {one.change.weight: weight + change, one.change.bias: bias + shift}
            for trained, expected in pairs.items():
                for value in released:
                    if value.shape == expected.shape and _close(value, expected):
                        replaced[self.digest(trained)] = self.digest(value)
        return [replaced.get(one, one) for one in weights]


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other.cpu(), rtol=1e-4, atol=1e-5)
