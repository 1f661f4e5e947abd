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
        for one in self.layers:
            trained = one.change.weight.detach(), one.change.bias.detach()
            for change, expected in zip(trained, self._made(one, *trained), strict=True):
                for value in released:
                    if close(value, expected):
                        replaced[self.digest(change)] = self.digest(value)
        return [replaced.get(one, one) for one in weights]

    def made_of(self, row: torch.Tensor) -> list[torch.Tensor]:
        """Returns what layers are with changes, whose weights and bias stand in a row."""
        made: list[torch.Tensor] = []
        for one in self.layers:
            shape = one.change.weight.shape
            if len(row) == shape.numel() + len(one.change.bias):
                change, shift = row[: shape.numel()].view(shape), row[shape.numel() :]
                made += self._made(one, change, shift)
        return made

    @property
    def stretch(self) -> float:
        """How far a weight or bias moves at most where each number of a change moves by one."""
        found = [1.0]
        for one in self.layers:
            size = one.directions.abs()
            found += [float(size.sum(0).max()), 1 + float((size @ one.mean.abs()).sum())]
        return max(found)

    def _made(
        self, one: Whitened, change: torch.Tensor, shift: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the weights and bias that a layer has with a change."""
        weight, bias = self.layers[one]
        moved = change @ one.directions
        return weight + moved, bias + (shift - moved @ one.mean)


def close(one: torch.Tensor, other: torch.Tensor, most: float = 1e-6) -> bool:
    """Whether two tensors are the same but for rounding."""
    return one.shape == other.shape and torch.allclose(one, other.cpu(), rtol=1e-6, atol=most)
