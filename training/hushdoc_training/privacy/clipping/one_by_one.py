"""Per-record gradients one at a time: exact for every architecture, and slow.

One forward pass, so that dropout is drawn once, and a backward pass for every record. A gradient
that is not finite can reach other records' through the shared forward pass (0 * inf), so it is only
left out where its record has the batch to itself.
"""

from __future__ import annotations

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.clipper import (
    Clipper,
    losses_of_examples,
    nothing_but_padding,
)
from hushdoc_training.privacy.clipping.contract import ClippedBatch, Losses
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.unwrapped_torch import grad


class OneByOne(Clipper):
    """A clipper that is exact for any architecture, at one backward pass per record."""

    def _add(self, losses: Losses, grouping: Grouping) -> ClippedBatch:
        by_example = losses_of_examples(losses, grouping.examples)
        weights = grouping.weights
        weighted = by_example if weights is None else by_example * weights.to(by_example)
        if grouping.empty:
            self._add_in_turn(weighted.sum(), idle=True)
            return nothing_but_padding(self.placement.parameters, grouping)
        columns = [self._add_record(weighted, grouping, r) for r in range(grouping.num_records)]
        names = len(self.placement.parameters)
        squares = torch.stack(columns, 1) if columns else by_example.new_zeros((names, 0)).float()
        norms = squares.detach().sum(0).sqrt()
        return ClippedBatch(
            norms=norms,
            losses=by_example.detach(),
            nonfinite=int((~torch.isfinite(norms)).sum()),
            squares=dict(zip(self.placement.parameters, squares, strict=True)),
        )

    def _add_record(self, weighted: torch.Tensor, grouping: Grouping, record: int) -> torch.Tensor:
        # Returns the squared norm of every parameter's gradient.
        if not grouping.size(record):
            return _nothing(weighted).expand(len(self.placement.parameters))
        loss = grouping.take(weighted, record).sum()
        alone = grouping.size(record) == grouping.examples
        if self.placement.sharded:
            return self._add_in_turn(loss, alone=alone)
        return self._add_at_once(loss, alone=alone)

    def _add_at_once(self, loss: torch.Tensor, *, alone: bool) -> torch.Tensor:
        parameters = list(self.placement.parameters.values())
        found = grad(loss, parameters, retain_graph=True, allow_unused=True)
        kept = [None if gradient is None else gradient.float() for gradient in found]
        nothing = _nothing(loss)
        squares = torch.stack([nothing if g is None else g.square().sum() for g in kept])
        _refuse_spread(squares, alone=alone)
        factors = self._factors(squares)
        for (name, total), gradient in zip(self.sums.items(), kept, strict=True):
            if gradient is not None and factors[name] > 0:
                total.add_(gradient * factors[name])
        return squares

    def _add_in_turn(
        self, loss: torch.Tensor, *, alone: bool = True, idle: bool = False
    ) -> torch.Tensor:
        # A pass for the norm and one for the sum: all gradients together would be a whole model.
        found: dict[str, torch.Tensor] = {}

        def measure(name: str, gradient: torch.Tensor) -> None:
            found[name] = gradient.float().square().sum()

        differentiate(loss, self.placement.parameters, measure, retain_graph=True)
        nothing = _nothing(loss)
        squares = torch.stack([found.get(name, nothing) for name in self.placement.parameters])
        _refuse_spread(squares, alone=alone)
        factors = dict.fromkeys(self.sums, nothing) if idle else self._factors(squares)

        def add(name: str, gradient: torch.Tensor) -> None:
            def fill(total: torch.Tensor) -> None:
                if factors[name] > 0:
                    total.add_(gradient.float() * factors[name])

            self.placement.add(self.sums, name, fill)

        differentiate(loss, self.placement.parameters, add, retain_graph=True)
        return squares

    def _factors(self, squares: torch.Tensor) -> dict[str, torch.Tensor]:
        return self.clipping.factors(dict(zip(self.sums, squares, strict=True)))


def _nothing(loss: torch.Tensor) -> torch.Tensor:
    return loss.detach().new_zeros((), dtype=torch.float32)


def _refuse_spread(squares: torch.Tensor, *, alone: bool) -> None:
    if not torch.isfinite(squares.sum()) and not alone:
        raise PrivacyError(
            "A gradient is not finite, and with one forward pass for several records it is "
            "unknown whose: leaving out the wrong record would break the bound. Put every "
            "record into a batch of its own, or use the backend book-keeping."
        )
