"""Whitening: a linear layer whose change is learned in directions that public inputs vary in alike.

A layer's inputs vary much in a few directions and little in most, so that gradients are long in the
few, clipping cuts by them, and noise drowns the others. So what is trained is A in

    W x + b + A z + c,   z = S (x - m)

where m is the mean of public inputs and the rows of S are their K principal directions, each
divided by the spread along it and by sqrt(K): public z has mean square length 1 (preconditioning by
public data before clipping and noise: Li et al., Private Adaptive Optimization with Side
Information, 2022). A and c begin at zero and are a linear layer, clipped as such. In the end A S is
added to W and c - A S m to b, and nothing of this is left in the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from hushdoc_training.models.adapters import Adapter

DIRECTIONS = 128
"""Most directions that are learned in, twice as many where several layers are read."""

_LEAST = 1e-6
"""Share of the largest variance below which a direction is left out: its spread is rounding."""


class Whitened(Adapter):
    """A linear layer whose own weights stay, with a trained one beside it that reads z."""

    mean: torch.Tensor
    directions: torch.Tensor

    def __init__(self, layer: nn.Linear, inputs: torch.Tensor, most: int = DIRECTIONS) -> None:
        """Freezes the layer and puts one beside it that adds nothing yet.

        Args:
            layer: Any.
            inputs: Of public examples, shape [tokens, in]; at least two that differ.
            most: Directions.
        """
        super().__init__(layer)
        mean, directions = whitening(inputs.to(layer.weight), most)
        self.register_buffer("mean", mean)
        self.register_buffer("directions", directions)
        place: dict[str, Any] = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        self.change = nn.Linear(len(directions), layer.out_features, **place)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the layer's outputs, shape [..., out], and what the change adds to them."""
        with torch.autocast(inputs.device.type, enabled=False):  # small directions are differences
            whitened = (inputs.float() - self.mean) @ self.directions.T
        outputs: torch.Tensor = self.layer(inputs) + self.change(whitened)
        return outputs

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Adds the change to the layer's weights, and returns the layer."""
        change = self.change.weight @ self.directions
        self.layer.weight.add_(change)
        self.layer.bias.add_(self.change.bias - change @ self.mean)
        return self.layer

    @torch.no_grad()
    def moves(self, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns how the layer's own weights move in the end by a step along their gradients."""
        change = (weight - bias[:, None] * self.mean) @ self.directions.T @ self.directions
        return change, bias - change @ self.mean


def whitened(model: nn.Module) -> dict[str, Whitened]:
    """Returns what learns beside layers of a model, by the layers' names."""
    found = dict(model.named_modules())
    return {name: module for name, module in found.items() if isinstance(module, Whitened)}


def moves(
    gradients: Mapping[str, torch.Tensor], layers: Mapping[str, Whitened]
) -> dict[str, torch.Tensor]:
    """Returns how weights move by gradients of their own, where some layers learn whitened."""
    found = dict(gradients)
    for name, layer in layers.items():
        weight, bias = f"{name}.weight", f"{name}.bias"
        if {weight, bias} <= found.keys():
            found[weight], found[bias] = layer.moves(found[weight], found[bias])
    return found


def whitening(inputs: torch.Tensor, most: int = DIRECTIONS) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns m, shape [in], and S, shape [K, in], of inputs, shape [tokens, in]; K <= most."""
    exact = inputs.double()
    if len(exact) < 2 or not bool((exact != exact[0]).any()):
        raise ValueError(
            f"The {len(exact)} public inputs do not vary, so that they say nothing of directions; "
            "expected words of several documents."
        )
    mean = exact.mean(0)
    variances, vectors = torch.linalg.eigh(torch.cov(exact.T))
    variances, vectors = variances.flip(0)[:most], vectors.flip(1)[:, :most]
    kept = variances > _LEAST * variances[0]
    variances, vectors = variances[kept], vectors[:, kept]
    scale = (variances * len(variances)).rsqrt()
    return mean.to(inputs), (vectors * scale).T.contiguous().to(inputs)


def output_layer(model: nn.Module) -> tuple[nn.Module, str, nn.Linear]:
    """Returns the last linear layer of a transformers model, with its parent and name there."""
    found = [
        (parent, name, child)
        for parent in (model, *model.get_submodule("classifier").modules())
        for name, child in parent.named_children()
        if type(child) is nn.Linear
    ]
    return found[-1]


def adapt(model: nn.Module, inputs: torch.Tensor, most: int = DIRECTIONS) -> None:
    """Puts a change beside the output layer, whose inputs of public examples are [tokens, in]."""
    parent, name, layer = output_layer(model)
    setattr(parent, name, Whitened(layer, inputs, most))
