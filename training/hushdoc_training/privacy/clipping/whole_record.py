"""A record that is too large for one batch: plain backward passes over its parts, then one clip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.contract import ClippedBatch, Losses, clip_factors
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.placement import Placement
from hushdoc_training.privacy.clipping.unwrapped_torch import grad


def add_large(
    sums: Mapping[str, torch.Tensor],
    placement: Placement,
    parts: Iterable[Losses],
    clipping_norm: float,
) -> ClippedBatch:
    """Adds the clipped gradient of one record, given in parts.

    Where parameters are sharded, all processes work on the same record, each on parts of its own,
    and each keeps a shard of the record's gradient.

    Returns:
        Its norm and losses.
    """
    gradients = placement.zeros()
    differentiated = _piece_by_piece if placement.sharded else _at_once
    losses = [differentiated(part, placement, gradients) for part in parts]
    by_name = torch.stack([gradient.pow(2).sum().reshape(1) for gradient in gradients.values()])
    squares = dict(zip(gradients, placement.over_shards(by_name), strict=True))
    square = torch.stack(list(squares.values())).sum(0)
    finite = bool(torch.isfinite(square))
    if finite:
        factor = clip_factors(square, clipping_norm)
        for name, gradient in gradients.items():
            sums[name].add_(gradient.mul_(factor))
    return ClippedBatch(
        norms=square.sqrt(),
        losses=torch.cat(losses) if losses else square.new_zeros(0),
        nonfinite=int(not finite),
        squares=squares,
    )


def losses_of_examples(losses: Losses, examples: int) -> torch.Tensor:
    """Returns the losses of a batch.

    Raises:
        PrivacyError: There is not one loss for every example.
    """
    by_example = losses()
    if by_example.shape != (examples,):
        raise PrivacyError(
            f"The losses have shape {list(by_example.shape)} for a batch of {examples} examples; "
            f"expected [{examples}]. A loss that is averaged over the batch couples records: "
            "return one loss for every example."
        )
    return by_example


def nothing_but_padding(parameters: Mapping[str, nn.Parameter], grouping: Grouping) -> ClippedBatch:
    """Returns what there is to say of a batch without a record: the model isn't run."""
    device = next(iter(parameters.values())).device
    nothing = torch.zeros(0, device=device)
    return ClippedBatch(
        norms=nothing,
        losses=torch.zeros(grouping.examples, device=device),
        nonfinite=0,
        squares=dict.fromkeys(parameters, nothing),
    )


def pretended(grouping: Grouping) -> Grouping:
    """Returns a batch of padding as one record, which is computed like any other and left out.

    Where parameters are sharded, a process that has nothing to compute still takes part in
    gathering them.
    """
    return Grouping(torch.zeros_like(grouping.records), grouping.weights)


def _piece_by_piece(
    part: Losses, placement: Placement, gradients: dict[str, torch.Tensor]
) -> torch.Tensor:
    by_example = part()

    def take(name: str, gradient: torch.Tensor) -> None:
        placement.add(gradients, name, lambda total: total.add_(gradient))

    differentiate(by_example.sum(), placement.parameters, take)
    return by_example.detach()


def _at_once(
    part: Losses, placement: Placement, gradients: dict[str, torch.Tensor]
) -> torch.Tensor:
    by_example = part()
    found = grad(by_example.sum(), list(placement.parameters.values()), allow_unused=True)
    for total, gradient in zip(gradients.values(), found, strict=True):
        if gradient is not None:
            total.add_(gradient)
    return by_example.detach()
