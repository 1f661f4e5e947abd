"""What all clippers share: their sums, and records that are too large for one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.contract import (
    ClippedBatch,
    Losses,
    clip_factors,
    positive_norm,
)
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.placement import Placement, place
from hushdoc_training.privacy.clipping.unwrapped_torch import grad, uncompiled


class PlacedClipper:
    """What all clippers are made of; each has its own way to `add` a batch of records.

    Attributes:
        model: The model whose trainable parameters, at the start, are differentiated.
        clipping_norm: The norm that no record's gradient exceeds.
        placement: Where those parameters stand.
        sums: The running sum for every one of them, as large as what this process keeps of it.
    """

    def __init__(self, model: nn.Module, *, clipping_norm: float) -> None:
        """Looks the model over.

        Raises:
            PrivacyError: Nothing is trainable, or a layer keeps statistics over a batch.
            ValueError: The clipping norm is not positive.
        """
        self.model = model
        self.clipping_norm = positive_norm(clipping_norm)
        self.placement = place(model)
        self.sums = self.placement.zeros()

    @uncompiled()
    def add_large(self, losses: Iterable[Losses]) -> ClippedBatch:
        """Adds one record by plain backward passes over its parts; see `Clipper.add_large`.

        Where parameters are sharded, all processes work on the same record, each on parts of its
        own, and each keeps a shard of the record's gradient.
        """
        gradients = self.placement.zeros()
        differentiated = _piece_by_piece if self.placement.sharded else _at_once
        found = [differentiated(part, self.placement, gradients) for part in losses]
        by_name = torch.stack([gradient.pow(2).sum().reshape(1) for gradient in gradients.values()])
        squares = dict(zip(gradients, self.placement.over_shards(by_name), strict=True))
        square = torch.stack(list(squares.values())).sum(0)
        finite = bool(torch.isfinite(square))
        if finite:
            factor = clip_factors(square, self.clipping_norm)
            for name, gradient in gradients.items():
                self.sums[name].add_(gradient.mul_(factor))
        return ClippedBatch(
            norms=square.sqrt(),
            losses=torch.cat(found) if found else square.new_zeros(0),
            nonfinite=int(not finite),
            squares=squares,
        )

    def clear(self) -> None:
        """Sets all sums to zero."""
        for total in self.sums.values():
            total.zero_()


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
