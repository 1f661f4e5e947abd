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
    """Returns this process's part of a draw."""
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
    """Adds this process's share to the clipper's sums; returns losses and non-finite count."""
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
                continue  # another one reports it
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

    The clipped sum `total` is overwritten. Where it is `sharded`, it is summed already, and a shard
    that each process has to itself.
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
