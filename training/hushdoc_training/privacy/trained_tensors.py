"""Trained tensors: what of a model training moves, and all of it as one row of numbers.

The row is what parties exchange: trained parameters in the model's own order, a tied one once, each
in row-major order. Who trains what is settled before by freezing the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from hushdoc_training.privacy import ownership

Weights = npt.NDArray[np.float32]
"""All trained numbers in a row, shape [d]."""


def trained_tensors(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that training changes by name, in the model's order; a tied one once.

    Raises:
        PrivacyError: Every parameter is frozen, or a layer keeps statistics over batches.
    """
    return ownership.trainable(model)


def count(tensors: Mapping[str, torch.Tensor]) -> int:
    """Returns how many numbers tensors hold together."""
    return sum(tensor.numel() for tensor in tensors.values())


def weights_of(tensors: Mapping[str, torch.Tensor]) -> Weights:
    """Returns a copy of all numbers in a row, float32, shape [d]."""
    rows = [tensor.detach().to("cpu", torch.float32).reshape(-1) for tensor in tensors.values()]
    return torch.cat(rows).numpy()


@torch.no_grad()
def load(tensors: Mapping[str, torch.Tensor], weights: Weights) -> None:
    """Puts a row of numbers in the place of the tensors' own; a ValueError where it doesn't fit."""
    if weights.shape != (count(tensors),):
        raise ValueError(
            f"The weights have shape {list(weights.shape)}; expected [{count(tensors)}], one "
            "number for each that is trained. Freeze the same parameters at every party."
        )
    for tensor, part in zip(tensors.values(), parts(tensors, weights), strict=True):
        tensor.copy_(torch.tensor(part).reshape(tensor.shape))


def parts(
    tensors: Mapping[str, torch.Tensor], row: npt.NDArray[np.generic]
) -> Iterator[npt.NDArray[np.generic]]:
    """Yields each tensor's numbers of a row, as views."""
    at = 0
    for tensor in tensors.values():
        yield row[at : at + tensor.numel()]
        at += tensor.numel()
