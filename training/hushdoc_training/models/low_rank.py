"""LoRA: linear layers that stay as they are, with a trained product of two thin ones beside them.

W x becomes W x + B (A x), with A of shape [rank, in] and B of shape [out, rank] (Hu et al. 2022,
equation 3, at alpha = rank). A begins as torch begins a linear layer and B at zero, so that
training begins where the model stands. A and B are linear layers, and clipped as such. In the end
B A is added to W, and nothing of this is left in the model.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from hushdoc.errors import InputError
from hushdoc_training.models.adapters import Adapter


class LowRank(Adapter):
    """A linear layer whose own weights stay, with two trained factors beside it."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        """Freezes the layer and puts factors beside it that add nothing yet."""
        super().__init__(layer)
        place: dict[str, Any] = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        self.down = nn.Linear(layer.in_features, rank, bias=False, **place)
        self.up = nn.Linear(rank, layer.out_features, bias=False, **place)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the layer's outputs, shape [..., out], and what the factors add to them."""
        outputs: torch.Tensor = self.layer(inputs) + self.up(self.down(inputs))
        return outputs

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Adds the product of the factors to the layer's weights, and returns the layer."""
        self.layer.weight += self.up.weight @ self.down.weight
        return self.layer


def adapt(part: nn.Module, rank: int, *, omitted: Collection[nn.Parameter] = ()) -> None:
    """Puts factors beside every linear layer of a part of a model but those of omitted weights.

    A rank above the width of one of them is an InputError, which changes nothing.
    """
    left_out = {id(weight) for weight in omitted}
    found = [
        (parent, name, layer)
        for parent in part.modules()
        for name, layer in parent.named_children()
        if type(layer) is nn.Linear and id(layer.weight) not in left_out
    ]
    width = min(min(layer.weight.shape) for _, _, layer in found)
    if rank > width:
        raise InputError(
            f"The rank of lora:{rank} is above {width}, the width of the narrowest linear layer in "
            f"the encoder. Choose lora:{width} or a smaller rank, or train these layers whole."
        )
    for parent, name, layer in found:
        setattr(parent, name, LowRank(layer, rank))
