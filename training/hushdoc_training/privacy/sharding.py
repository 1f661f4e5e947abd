"""Models whose parameters are sharded over processes by torch's `fully_shard` (FSDP2).

Between steps every process keeps its shard of parameters and optimizer state. Inside a step the
parameters are whole, because a record's norm needs the gradients of all of them in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed as dist
from torch import nn


def is_sharded(model: nn.Module) -> bool:
    """Whether parameters of the model are sharded."""
    return bool(_sharded(model))


@contextmanager
def whole(model: nn.Module) -> Iterator[None]:
    """Keeps all parameters whole inside the block; nothing happens to a model without shards."""
    modules = _sharded(model)
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
        module.set_reshard_after_backward(False, recurse=False)
        module.set_requires_gradient_sync(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in modules:
            module.reshard()


def as_gradient(total: torch.Tensor, parameter: nn.Parameter) -> torch.Tensor:
    """Returns a whole gradient as the parameter's own: its shard, in its type.

    Args:
        total: The same in every process.
        parameter: Where it will be `.grad`.
    """
    converted = total.to(parameter.dtype)
    if not (dist.is_available() and dist.is_initialized()):
        return converted
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(parameter, DTensor):
        return converted
    mesh = parameter.device_mesh
    copies = DTensor.from_local(converted, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return copies.redistribute(mesh, parameter.placements)


def _sharded(model: nn.Module) -> list[Any]:
    if not (dist.is_available() and dist.is_initialized()):
        return []  # and a second of imports is saved
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]
