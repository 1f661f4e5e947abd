"""Where trained parameters and their sums stand: whole in this process, or in shards over several.

A clipper computes the clipped sum of one parameter at a time and hands it to its placement. Whole
parameters have whole sums, one set in every process. Parameters that are sharded by torch's
`fully_shard` (FSDP2) are gathered module by module while the model runs; the tensors that the
forward pass then uses keep their identity, though not their content, for the life of the model, and
clippers know parameters by these. What a process has summed up is added to what the others have,
and each keeps its own shard. Every method of a sharded placement is called by all processes
together, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed as dist
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.contract import trainable

Fill = Callable[[torch.Tensor], Any]
"""Adds something to a tensor of a parameter's whole shape."""


class Placement:
    """Parameters that stand whole; sharded ones make all processes run equally many passes."""

    sharded = False

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], constants: Iterable[torch.Tensor]
    ) -> None:
        """Notes which tensors are meant."""
        self.parameters = dict(parameters)
        self.constants = list(constants)

    def zeros(self) -> dict[str, torch.Tensor]:
        """Returns an empty sum for every parameter, as large as what this process keeps of it."""
        return {
            name: torch.zeros_like(p, dtype=torch.float32, memory_format=torch.contiguous_format)
            for name, p in self.parameters.items()
        }

    def add(self, sums: Mapping[str, torch.Tensor], name: str, fill: Fill) -> None:
        """Adds what `fill` adds, in this process and in all that hold shards, to a sum."""
        fill(sums[name])

    def over_shards(self, values: torch.Tensor) -> torch.Tensor:
        """Returns values that each process took of its own shards, added up."""
        return values

    def worst(self, value: float) -> float:
        """Returns the largest that any process found, so that all of them decide alike."""
        return value

    @contextmanager
    def gathered(self, names: Iterable[str]) -> Iterator[None]:
        """Makes the values of some parameters available inside the block."""
        del names
        yield


class Shards(Placement):
    """Parameters that stand in shards."""

    sharded = True

    def __init__(self, model: nn.Module, modules: list[Any]) -> None:
        """Gathers each module once, to learn which tensors the forward pass will use."""
        for module in modules:
            module.reshard()  # a pass without a backward pass leaves the outermost whole
        self._shards: dict[str, Any] = dict(trainable(model))
        self._owners: dict[str, Any] = {}
        whole = _whole_parameters(model, modules, self._owners)
        super().__init__(
            {name: whole[name] for name in self._shards if name in whole},
            [value for name, value in whole.items() if name not in self._shards],
        )
        self._refuse_mixtures()

    def zeros(self) -> dict[str, torch.Tensor]:
        """Returns an empty sum for every shard of this process."""
        return {
            name: torch.zeros(
                shard.to_local().shape, dtype=torch.float32, device=self.parameters[name].device
            )
            for name, shard in self._shards.items()
        }

    def add(self, sums: Mapping[str, torch.Tensor], name: str, fill: Fill) -> None:
        """Adds up over all processes; the whole parameter's sum stands for this moment alone."""
        from torch.distributed.tensor import DTensor, Partial

        shard = self._shards[name]
        total = torch.zeros(shard.shape, dtype=torch.float32, device=sums[name].device)
        fill(total)
        mesh = shard.device_mesh
        everywhere = DTensor.from_local(total, mesh, [Partial()] * mesh.ndim, run_check=False)
        sums[name].add_(everywhere.redistribute(mesh, shard.placements).to_local())

    def over_shards(self, values: torch.Tensor) -> torch.Tensor:
        """Returns values that each process took of its own shards, added up."""
        shard = next(iter(self._shards.values()))
        for axis, placement in enumerate(shard.placements):
            if placement.is_shard():
                dist.all_reduce(values, group=shard.device_mesh.get_group(axis))
        return values

    def worst(self, value: float) -> float:
        """Returns the largest that any process found; what is undefined counts as infinite."""
        shard = next(iter(self._shards.values()))
        found = torch.tensor(value, device=next(iter(self.parameters.values())).device)
        found = found.nan_to_num(nan=float("inf"))
        for axis in range(shard.device_mesh.ndim):
            dist.all_reduce(found, dist.ReduceOp.MAX, group=shard.device_mesh.get_group(axis))
        return float(found)

    @contextmanager
    def gathered(self, names: Iterable[str]) -> Iterator[None]:
        """Gathers the modules that own some parameters."""
        owners = list(
            dict.fromkeys(self._owners[name] for name in self.parameters if name in names)
        )
        for owner in owners:
            owner.unshard()
        try:
            yield
        finally:
            for owner in owners:
                owner.reshard()

    def _refuse_mixtures(self) -> None:
        whole = [name for name in self._shards if name not in self._owners]
        if whole:
            raise PrivacyError(
                f"{len(whole)} trained parameters are in no shard ({', '.join(whole[:3])}), and "
                "others are. Call `fully_shard` on the model itself too, after its blocks."
            )
        layouts = {(shard.device_mesh, len(shard.placements)) for shard in self._shards.values()}
        if len(layouts) > 1 or any(_is_distributed(p) for p in self.parameters.values()):
            raise PrivacyError(
                "Parameters are sharded in more than one way, over different meshes or within "
                "layers (tensor parallelism). Use `fully_shard` with one mesh and nothing else."
            )


def place(model: nn.Module) -> Placement:
    """Returns where a model's parameters stand."""
    modules = sharded_modules(model)
    if modules:
        return Shards(model, modules)
    frozen = [value for value in model.parameters() if not value.requires_grad]
    return Placement(trainable(model), frozen)


def sharded_modules(model: nn.Module) -> list[Any]:
    """Returns the modules that torch's `fully_shard` was called on."""
    if not (dist.is_available() and dist.is_initialized()):
        return []  # and a second of imports is saved
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _whole_parameters(
    model: nn.Module, modules: list[Any], owners: dict[str, Any]
) -> dict[str, nn.Parameter]:
    # Only the shapes, types and identities of what is returned outlast this.
    before = {name: id(value) for name, value in model.named_parameters()}
    whole: dict[str, nn.Parameter] = {}
    for module in modules:
        module.unshard()
        for name, value in model.named_parameters():
            if id(value) != before[name]:
                whole[name], owners[name] = value, module
        module.reshard()
    return whole


def _is_distributed(tensor: torch.Tensor) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)
