"""The sum of a step: clipped over all physical batches and processes, noised once, divided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import nn

from hushdoc_training.privacy import clipping, sharding
from hushdoc_training.privacy.example_losses import ExampleLosses, by_record, weighted
from hushdoc_training.privacy.physical import Packed
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.randomness.secret_stream import SecretStream

Example = TypeVar("Example")


def share_of(
    drawn: Sequence[Sequence[Example]],
    records: Sequence[Sequence[Example]],
    pack: Callable[[Sequence[Sequence[Example]]], Packed[Example]],
    group: Group,
    *,
    sharded: bool,
) -> Packed[Example]:
    """Returns this process's part of a draw.

    Args:
        drawn: The records, the same in all processes.
        records: All that there are, to go through one where a process has nothing to do.
        pack: Makes physical batches of records.
        group: The processes.
        sharded: Whether all processes have to make as many passes.
    """
    if not sharded:
        return pack(group.share(drawn))
    some = next((record[:1] for record in records if len(record)), ())
    return sharding.divided(drawn, some, pack, group)


def sum_clipped(
    clipper: clipping.Clipper,
    packed: Packed[Example],
    losses_of: ExampleLosses[Example],
    group: Group,
    *,
    sharded: bool,
) -> tuple[list[float], int]:
    """Adds the clipped gradients of this process's share to the clipper's sums.

    Args:
        clipper: Its sums are added to.
        packed: The share.
        losses_of: One loss for each example.
        group: The processes.
        sharded: Whether they all work on large records together.

    Returns:
        The losses of the records, and how many gradients were not finite.
    """
    losses: list[float] = []
    nonfinite = 0
    for batch in packed.batches:
        found = clipper.add(weighted(losses_of, batch), torch.tensor(batch.records))
        losses += by_record(found.losses, batch)
        nonfinite += found.nonfinite
    for number, parts in enumerate(packed.large):
        found = clipper.add_large(weighted(losses_of, part) for part in parts)
        loss = found.losses.sum()
        if sharded:
            group.sum([loss])
            if number % group.size != group.rank:
                continue  # another one tells of it
        losses.append(float(loss))
        nonfinite += found.nonfinite
    return losses, nonfinite


def noised(
    total: torch.Tensor,
    parameter: nn.Parameter,
    plan: PrivacyPlan,
    noise: SecretStream,
    group: Group,
    *,
    sharded: bool,
) -> torch.Tensor:
    """Returns a parameter's gradient: the sum over processes with noise, by the public constant.

    Args:
        total: The clipped sum; overwritten.
        parameter: What it is of.
        plan: Scale and divisor.
        noise: Where noise comes from.
        group: The processes.
        sharded: Whether `total` is summed already, and a shard that each has to itself.
    """
    std = plan.noise_multiplier * plan.clipping_norm
    if sharded:
        sharding.add_noise(total, parameter, noise, std=std)
    else:
        if group.is_first:
            total.add_(noise.normal_tensor(total.shape, std=std).to(total.device))
        group.sum([total])
    total.div_(plan.expected_records)
    return sharding.as_gradient(total, parameter)
