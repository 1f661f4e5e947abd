"""Models whose parameters are sharded over processes by torch's `fully_shard` (FSDP2).

Every process keeps its shard of parameters, optimizer state, clipped sums and noise. Inside a step
a module's parameters are gathered for its forward pass and again for its backward pass, and a
parameter's clipped sum is whole for the moment in which it is added up over the processes. Since
gathering takes all processes, each makes as many passes as the busiest; one with less to compute
goes through an example that counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.placement import sharded_modules
from hushdoc_training.privacy.physical import PADDING, Packed, PhysicalBatch
from hushdoc_training.privacy.process_group import Group

Example = TypeVar("Example")


def is_sharded(model: nn.Module) -> bool:
    """Whether parameters of the model are sharded."""
    return bool(sharded_modules(model))


def require_spanning(parameters: Mapping[str, nn.Parameter], group: Group) -> None:
    """Raises PrivacyError where shards are held by other processes than those that train."""
    for name, parameter in parameters.items():
        mesh: Any = getattr(parameter, "device_mesh", None)
        if mesh is not None and mesh.size() != group.size:
            raise PrivacyError(
                f"The parameter '{name}' is sharded over {mesh.size()} processes, and {group.size} "
                "train together, so sums would be of a part of them. Shard over all of them, or "
                "give `processes` the mesh's group."
            )


@contextmanager
def by_module(model: nn.Module) -> Iterator[None]:
    """Gathers a sharded model's parameters module by module; gradients are left alone."""
    modules = sharded_modules(model)
    for module in modules:
        module.set_requires_gradient_sync(False, recurse=False)
        module.set_reshard_after_backward(True, recurse=False)
    try:
        yield
    except BaseException:
        _forget_pass(modules)
        raise
    finally:
        for module in modules:
            module.reshard()


def divided(
    drawn: Sequence[Sequence[Example]],
    some: Sequence[Example],
    pack: Callable[[Sequence[Sequence[Example]]], Packed[Example]],
    group: Group,
) -> Packed[Example]:
    """Returns this process's part of a draw, in as many passes as every other process makes.

    Records that fit into a batch are shared out. On a larger one all processes work together, each
    on parts of its own, for no process could keep its whole gradient.
    """
    large = [record for record in drawn if pack([record]).large]
    small = [record for record in drawn if not pack([record]).large]
    batches = pack(group.share(small)).batches
    missing = group.most(len(batches)) - len(batches)
    idle = [_idle(pack([some]).batches[0], PADDING)] * missing if missing else []
    return Packed(
        batches=(*batches, *idle),
        large=tuple(_parts(parts, group) for parts in pack(large).large),
    )


def agreed(noise: torch.Tensor, parameter: nn.Parameter) -> torch.Tensor:
    """Returns the noise of this process's shard; copies of one shard get the first one's."""
    shard: Any = parameter
    for axis, placement in enumerate(shard.placements):
        if not placement.is_shard():
            dist.broadcast(noise, group=shard.device_mesh.get_group(axis), group_src=0)
    return noise


def as_gradient(total: torch.Tensor, parameter: nn.Parameter) -> torch.Tensor:
    """Returns a sum as the parameter's own gradient, in its type."""
    converted = total.to(device=parameter.device, dtype=parameter.dtype)
    if not (dist.is_available() and dist.is_initialized()):
        return converted
    from torch.distributed.tensor import DTensor

    if not isinstance(parameter, DTensor):
        return converted
    return DTensor.from_local(
        converted,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def as_many(
    some: Sequence[PhysicalBatch[Example]], packed: Packed[Example], group: Group
) -> list[PhysicalBatch[Example]]:
    """Returns batches and as many idle ones as let every process make the same number of passes."""
    missing = group.most(len(some)) - len(some)
    return [*some, *(_idle(packed.batches[0], PADDING) for _ in range(missing))]


def _parts(
    parts: Sequence[PhysicalBatch[Example]], group: Group
) -> tuple[PhysicalBatch[Example], ...]:
    mine = group.share(parts)
    missing = -(-len(parts) // group.size) - len(mine)
    # Examples of the same record, so that what is not finite stays with the record it comes from.
    return (*mine, *[_idle(parts[0], 0)] * missing)


def _idle(batch: PhysicalBatch[Example], record: int) -> PhysicalBatch[Example]:
    examples = len(batch.examples)
    return replace(batch, records=(record,) * examples, weights=(0.0,) * examples)


def _forget_pass(modules: Sequence[Any]) -> None:
    # A pass that failed half-way leaves torch waiting for its end; old releases can't be told, and
    # have the next step refused, as parameters are not where they were.
    inside = {id(part) for module in modules for part in module.modules() if part is not module}
    for module in modules:
        if id(module) not in inside and hasattr(module, "reset_iter_state"):
            with suppress(AttributeError):  # torch's own, where no pass has begun yet
                module.reset_iter_state()
