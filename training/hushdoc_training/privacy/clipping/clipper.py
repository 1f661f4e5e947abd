"""The contract of every clipper, and what all share: sums, and records larger than one batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.contract import (
    ClippedBatch,
    Clipping,
    Losses,
)
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.placement import Placement, place
from hushdoc_training.privacy.clipping.unwrapped_torch import grad, uncompiled


class Clipper(ABC):
    """Adds up clipped gradients of records; each subclass has its own way to `add` a batch of them.

    `sums` holds the running sum for every trainable parameter by its name, fp32, not divided. Of a
    model that is sharded over processes it is the sum over all of them, and each has its shard of
    it; then all call every method together.
    """

    def __init__(self, model: nn.Module, *, clipping_norm: float, clipping: str = "flat") -> None:
        """Looks the model over; `clipping` is one of `contract.CLIPPINGS`."""
        self.model = model
        self.clipping = Clipping(float(clipping_norm), clipping)
        self.placement = place(model)
        self.sums = self.placement.zeros()
        self.clipping.require_applicable(self.sums)

    @property
    def clipping_norm(self) -> float:
        """Largest L2 norm of one record's gradient, as clipping applies it to these parameters."""
        return self.clipping.reach(self.sums)

    @uncompiled()
    def add(
        self,
        losses: Losses,
        records: torch.Tensor,
        *,
        weights: torch.Tensor | None = None,
        or_nothing: bool = False,
    ) -> ClippedBatch:
        """Adds the clipped gradients of the records of one physical batch.

        `records` (int64, shape [examples]) says which record (0, 1, ...) an example belongs to; -1
        marks an example of padding, which counts for nothing. `weights` multiply the losses: 1 /
        chunks for a mean over the chunks of a document, 1 / multiplicity for noise multiplicity.
        With `or_nothing` a batch in which a record's gradient is not finite adds nothing at all.
        """
        grouping = Grouping(records, weights, or_nothing=or_nothing)
        if grouping.empty and not self.placement.sharded:
            return nothing_but_padding(self.placement.parameters, grouping)
        return self._add(losses, grouping)

    @abstractmethod
    def _add(self, losses: Losses, grouping: Grouping) -> ClippedBatch:
        # Is given a batch of nothing but padding where parameters are sharded: it runs the model,
        # because the other processes do, and adds nothing.
        ...

    @uncompiled()
    def add_large(self, losses: Iterable[Losses]) -> ClippedBatch:
        """Adds one record that is too large for one batch, by plain backward passes over its parts.

        Where the model is sharded, every process gives as many parts of the same record, which are
        its own, and keeps a shard of the record's gradient.
        """
        gradients = self.placement.zeros()
        differentiated = _piece_by_piece if self.placement.sharded else _at_once
        found = [differentiated(part, self.placement, gradients) for part in losses]
        by_name = torch.stack([gradient.pow(2).sum().reshape(1) for gradient in gradients.values()])
        squares = dict(zip(gradients, self.placement.over_shards(by_name), strict=True))
        square = torch.stack(list(squares.values())).sum(0)
        finite = bool(torch.isfinite(square))
        if finite:
            factors = self.clipping.factors(squares)
            for name, gradient in gradients.items():
                self.sums[name].add_(gradient.mul_(factors[name]))
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
    """Returns the losses of a batch, and refuses any but one loss for every example."""
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
    """Returns padding as one record, for a process that only takes part in gathering shards."""
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
