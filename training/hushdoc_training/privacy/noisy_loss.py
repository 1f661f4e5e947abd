"""NoisyLoss: the loss of every step with noise, inside the plan's budget.

A loss that somebody decides by has to be paid for. Here it is one more number of the vector that
each record adds to a step's sum. A record's gradient is clipped to 0.96 C instead of the plan's
clipping norm C, and its loss, clipped to [0, bound] by a public constant, becomes a number from 0
to 0.28 C beside it. As 0.96**2 + 0.28**2 = 1, gradient and loss together have a norm of at most C.
So the step stays one Gaussian mechanism, drawn by the same coins, with noise of the plan's
multiplier times C on every number of the sum: what the plan accounts for, without any addition.
(Releasing a loss of the same draw beside the step, and composing both as if each had been drawn
anew, would be wrong; this is their joint release.) The price is a gradient 4 % shorter, and a loss
whose mean has noise of deviation noise_multiplier * bound / (0.28 * expected_records).

The mean divides by the plan's expected number of records, not by how many were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from hushdoc.certificate.claim import DataAccess
from hushdoc_training.privacy.claims import TRANSCRIPT
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.randomness.lattice import Lattice
from hushdoc_training.randomness.secret_stream import SecretStream

GRADIENT, LOSS = 0.96, 0.28
"""Shares of the clipping norm; the squares add up to 1."""

PURPOSE = "losses with noise: one number of each step's sum, clipped together with the gradient"


@dataclass(frozen=True, kw_only=True)
class NoisyLoss:
    """How losses are released with noise; `bound` is None where none are.

    Attributes:
        bound: A public constant: losses above it count as this much.
        clipping_norm: The plan's: of a record's gradient and loss together.
        expected_records: The plan's divisor.
    """

    bound: float | None
    clipping_norm: float
    expected_records: int

    def __post_init__(self) -> None:
        """Refuses a bound that no loss can be measured by."""
        if self.bound is not None and not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"loss_bound is {self.bound!r}; expected a finite number above 0.")

    @property
    def of_gradient(self) -> float:
        """The norm to which a record's gradient alone is clipped."""
        return self.clipping_norm * (GRADIENT if self.bound is not None else 1.0)

    def together_with(self, gradient: float) -> float:
        """Returns how far gradient and loss of a record move a sum, where gradients are clipped so.

        Example:
            >>> NoisyLoss(bound=4.0, clipping_norm=1.0, expected_records=8).together_with(0.96)
            1.0
        """
        return math.hypot(gradient, LOSS * self.clipping_norm * self.numbers)

    @property
    def numbers(self) -> int:
        """How many numbers it adds to a step's sum."""
        return int(self.bound is not None)

    def clipped_sum(self, losses: Iterable[float]) -> float:
        """Returns this number of a step's sum: losses from 0 to the bound, in parts of it.

        A loss that is not a number counts as 0, as a gradient that is not finite does.
        """
        bound = self.bound or 1.0
        clipped = (min(max(loss, 0.0), bound) for loss in losses if not math.isnan(loss))
        return math.fsum(clipped) / bound * LOSS * self.clipping_norm

    def released(
        self,
        losses: Iterable[float],
        lattice: Lattice,
        noise: SecretStream,
        group: Group,
        device: torch.device,
    ) -> float | None:
        """Returns the mean loss of a step with noise, the same in all processes.

        Args:
            losses: Of the drawn records that this process reports; each record is one's alone.
            lattice: The grid of the step's sum and noise.
            noise: What noise is drawn from; the first process's counts.
            group: The processes that train together.
            device: Where they add up.
        """
        if self.bound is None:
            return None
        steps = round(self.clipped_sum(losses) / lattice.step)
        if group.is_first:
            steps += int(lattice.noise(noise, (1,))[0])
        total = torch.tensor([steps], dtype=torch.int64, device=device)
        group.sum([total])
        scale = lattice.step * self.bound / (LOSS * self.clipping_norm)
        return int(total) * scale / self.expected_records

    def accesses(self, name: str) -> tuple[DataAccess, ...]:
        """Returns what a claim lists of it."""
        if self.bound is None:
            return ()
        return (
            DataAccess(
                data=name, purpose=PURPOSE, accounted_in=(TRANSCRIPT,), treatment="accounted"
            ),
        )
