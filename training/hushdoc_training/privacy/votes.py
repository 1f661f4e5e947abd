"""PrivateVotes: records that vote, with plan, votes, noise, charge and receipt in one object.

Each round every record casts one vote, a vector of Euclidean norm at most the plan's clipping norm
that depends on that record and on public values alone. The votes are summed on the lattice of
`hushdoc_training.randomness.lattice` and get noise once. So one record more or less moves the sum
by at most the clipping norm, whatever function casts votes: what is longer is shortened, and what
is not finite becomes the vector 0. How many records voted, and how many of them could not, is
read by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hushdoc.errors import PrivacyError
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import ReceiptKept
from hushdoc_training.privacy.records import Records, require_unit, unit_of
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.receipt import Receipt

Example = TypeVar("Example")
Floats = npt.NDArray[np.float64]

EMPTY_VOTES = "numbers of records whose vote was not finite"
"""What the view notes where somebody reads `PrivateVotes.not_finite`."""

_SLACK = 1e-9
"""Every vote is shorter by this share: no rounding in float64 lifts one above the norm."""


class PrivateVotes(Generic[Example]):
    """Rounds of votes as a plan has them.

    Attributes:
        plan: What all rounds spend together; each round is one of its steps.
        view: What notes who reads un-noised numbers.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        records: Records[Example],
        *,
        charge: Callable[[int], None],
        charged: int = 0,
        receipt: Receipt | None = None,
        stream: SecretStream | None = None,
        view: PrivateView | None = None,
    ) -> None:
        """Takes records of one example each; nothing is read before a round.

        Args:
            plan: Sampling, norm, noise and number of rounds.
            records: Who votes, and what one of them is.
            charge: Called with the number of each round before a record is read.
            charged: Rounds that were charged before, taken or lost.
            receipt: Of the rounds that were taken before.
            stream: For tests alone; nothing is certified of noise that somebody knows.
            view: As above.

        Raises:
            PrivacyError: The records are of another unit than the plan's.
        """
        require_unit(records, plan.privacy_unit)
        self.plan, self.view = plan, view or PrivateView()
        self._records, self._charge, self._charged = records, charge, charged
        self._stream = stream or SecretStream()
        self._meter = Meter(planned_steps=plan.steps, privacy_unit=unit_of(records))
        if receipt is not None:
            self._meter.go_on(receipt)
        self._lattice = lattice.of_truncated(
            norm=plan.clipping_norm, noise_multiplier=plan.noise_multiplier
        )
        self._not_finite = 0

    @property
    def charged(self) -> int:
        """The last round that was charged."""
        return self._charged

    @property
    def receipt(self) -> Receipt:
        """What was executed up to now; a PrivacyError before the first round."""
        return ReceiptKept(self._meter, self.view).receipt()  # with who read of what is not noised

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in each cell of what `sums` returns."""
        return self._lattice.deviation / self.plan.expected_records

    @property
    def not_finite(self) -> int:
        """How many votes were not finite and became 0: a private number, noted as read."""
        self.view.note(EMPTY_VOTES)
        return self._not_finite

    def sums(self, vote: Callable[[Example], Floats], size: int) -> Floats:
        """Returns the noisy sum of a round's votes over the planned records, shape [size].

        Args:
            vote: From a record's example to its vote; it may use public values besides.
            size: How many cells a vote has.

        Raises:
            PrivacyError: All planned rounds are charged.
            ValueError: A vote has another shape.
        """
        number = self._charged + 1
        if number > self.plan.steps:
            raise PrivacyError(
                f"All {self.plan.steps} rounds of the plan are charged, and another was asked for. "
                "Plan more rounds, in a new run.",
                code="NOT_RESERVED",
            )
        self._charge(number)
        self._charged = number
        rate = self.plan.sampling_rate
        self._meter.drawn(rate, origin_of(self._stream))
        drawn = self._stream.uniforms(len(self._records)) <= rate
        self._meter.clipped(self.plan.clipping_norm)
        voters = (self._records[place][0] for place in np.flatnonzero(drawn).tolist())
        total, strange = summed(
            voters, vote, size, norm=self.plan.clipping_norm, step=self._lattice.step
        )
        self._not_finite += strange
        self._meter.noised(
            std=self._lattice.deviation,
            sensitivity=self._lattice.reach,
            origin=origin_of(self._stream),
            distribution=self._lattice.distribution,
        )
        total += self._lattice.noise(self._stream, total.shape)
        self._meter.divided(self.plan.expected_records)
        return total * (self._lattice.step / self.plan.expected_records)


def summed(
    examples: Iterable[Example],
    vote: Callable[[Example], Floats],
    size: int,
    *,
    norm: float,
    step: float,
) -> tuple[Floats, int]:
    """Returns the sum of votes in whole steps of a grid, and how many votes were not finite.

    A vote that is longer than the norm is shortened to it, and all are cut off towards zero, so one
    example more moves the sum by at most norm / step steps.
    """
    total, strange = np.zeros(size), 0
    for example in examples:
        cast = np.asarray(vote(example), dtype=np.float64)
        if cast.shape != (size,):
            raise ValueError(f"a vote has the shape {cast.shape}; expected {(size,)}.")
        length = float(np.sqrt(np.square(cast).sum()))
        if not np.isfinite(length):
            strange += 1
            continue
        total += lattice.truncated(cast * (norm / max(length, norm) * (1 - _SLACK)), step)
    return total, strange
