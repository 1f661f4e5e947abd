"""Adapters: what is trained beside a linear layer that stays, and is merged into it in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class Adapter(nn.Module):
    """A linear layer whose own weights stay, with trained parts beside it."""

    def __init__(self, layer: nn.Linear) -> None:
        """Freezes the layer."""
        super().__init__()
        self.layer = layer.requires_grad_(False)

    @property
    def weight(self) -> torch.Tensor:
        """The layer's own weights, at which T5 looks for their type."""
        return self.layer.weight

    def merged(self) -> nn.Linear:
        """Adds to the layer's weights what the trained parts make of them, and returns it."""
        raise NotImplementedError


@contextmanager
def merging(model: nn.Module) -> Iterator[None]:
    """Merges a model's adapters into the layers that they stand beside when the block ends."""
    try:
        yield
    finally:
        for parent in list(model.modules()):
            for name, child in parent.named_children():
                if isinstance(child, Adapter):
                    setattr(parent, name, child.merged())
