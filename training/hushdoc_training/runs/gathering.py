"""Weights and optimizer of processes that train together, as whole tensors in the first one.

What is kept has one form, however many processes trained it and however they sharded it: a tensor
for every parameter and buffer (`model.<name>`) and for every value of the optimizer
(`optimizer.<index of the parameter>.<name>`). So a run of several processes can be gone on with by
one, and the reverse. Only one tensor is whole at a time in processes other than the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch import nn

from hushdoc_training.privacy.process_group import Group

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Weights and optimizer, put together, on the CPU."""

    tensors: Mapping[str, torch.Tensor]
    numbers: list[dict[str, Any]]  # learning rate and the like, of each of the optimizer's groups


def first_finds(group: Group, look: Callable[[], Found]) -> Found:
    """Returns to all processes what the first one finds; where it fails, all raise."""
    found: list[Found] = []
    group.first_does(lambda: found.append(look()))
    if group.size == 1:
        return found[0]
    box: list[Any] = [found[0] if found else None]
    dist.broadcast_object_list(box, group=group.handle, group_src=0)
    received: Found = box[0]
    return received


def gather(model: nn.Module, optimizer: torch.optim.Optimizer, group: Group) -> Whole:
    """Puts everything together in the first process; the others keep no tensor."""
    tensors: dict[str, torch.Tensor] = {}
    for key, value in _values(model, optimizer):
        full = getattr(value, "full_tensor", None)  # of a shard; all processes take part
        whole = value if full is None else full()
        if group.is_first:
            # Cloned, because buffers may share memory, which the format refuses.
            tensors[key] = whole.cpu().clone(memory_format=torch.contiguous_format)
    return Whole(tensors=tensors, numbers=_numbers(optimizer))


def require_fit(whole: Whole, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError unless every parameter finds its tensor, and every tensor a place."""
    for key, value in _named(model).items():
        found = whole.tensors.get(key)
        if found is None and isinstance(value, nn.Parameter):
            raise ValueError(f"it lacks '{key}'")
        if found is not None and found.shape != value.shape:
            raise ValueError(
                f"'{key}' has shape {tuple(found.shape)}, the model's {tuple(value.shape)}"
            )
    last = max((place[0] for key in whole.tensors if (place := _place(key))), default=-1)
    if last >= len(_parameters(optimizer)):
        raise ValueError(f"the optimizer has no parameter {last}")


def give_out(
    whole: Whole | None, model: nn.Module, optimizer: torch.optim.Optimizer, group: Group
) -> None:
    """Loads what the first process holds into model and optimizer of all."""
    given = whole or Whole(tensors={}, numbers=[])
    named, parameters = _named(model), _parameters(optimizer)
    device = next(iter(named.values())).device
    numbers = first_finds(group, lambda: given.numbers)
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in _received(given.tensors, group, device):
        place = _place(key)
        if place is not None:
            state.setdefault(place[0], {})[place[1]] = _like(tensor, parameters[place[0]])
        elif key in named:
            with torch.no_grad():
                named[key].copy_(_like(tensor.to(named[key].device), named[key]))
    groups = [dict(one) for one in optimizer.state_dict()["param_groups"]]
    for one, known in zip(groups, numbers, strict=False):
        one.update(known)
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _received(
    tensors: Mapping[str, torch.Tensor], group: Group, device: torch.device
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the first process's tensors in all of them, one after the other."""
    if group.size == 1:
        yield from tensors.items()
        return
    # Single numbers travel with the outline: optimizers count steps on the CPU.
    outline = first_finds(
        group,
        lambda: [
            (key, value.shape, value.dtype, None if value.ndim else value)
            for key, value in tensors.items()
        ],
    )
    for key, shape, dtype, number in outline:
        if number is not None:
            yield key, number
            continue
        own = tensors[key].to(device) if group.is_first else None
        tensor = torch.empty(shape, dtype=dtype, device=device) if own is None else own
        group.copy_from_first([tensor])
        yield key, tensor


def _like(tensor: torch.Tensor, model: Any) -> torch.Tensor:
    """Returns this process's part of a tensor that all hold, if the model's is sharded."""
    if not hasattr(model, "placements") or tensor.shape != model.shape:
        return tensor  # of another shape are counts of steps and the like
    from torch.distributed.tensor import distribute_tensor

    whole = tensor.to(model.device)
    return distribute_tensor(whole, model.device_mesh, model.placements, src_data_rank=None)


def _values(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields all that is kept, in an order that all processes share."""
    for key, value in _named(model).items():
        yield key, value.detach()
    for index, state in sorted(optimizer.state_dict()["state"].items()):
        for name, value in sorted(state.items()):
            if value is not None:
                yield f"optimizer.{index}.{name}", torch.as_tensor(value).detach()


def _named(model: nn.Module) -> dict[str, torch.Tensor]:
    both = (*model.named_parameters(), *model.named_buffers())
    return {f"model.{name}": value for name, value in both}


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for group in optimizer.param_groups for value in group["params"]]


def _place(key: str) -> tuple[int, str] | None:
    """Returns the parameter and the name of an optimizer's value."""
    prefix, _, rest = key.partition(".")
    if prefix != "optimizer":
        return None
    index, _, name = rest.partition(".")
    return int(index), name


def _numbers(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    plain = (int, float, bool, str, type(None))
    return [
        {name: value for name, value in group.items() if isinstance(value, plain)}
        for group in optimizer.param_groups
    ]
