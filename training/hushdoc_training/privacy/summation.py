"""The summing half: one object that draws, clips and adds up records, and charges each step first.

Central training steps by its sums; a client of federated training uses it alone, adds its share of
the noise to whole steps, and sends them. Nothing here adds noise: what it returns is private.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.metering import Meter
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.draws import Draws
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.noisy_loss import NoisyLoss
from hushdoc_training.privacy.physical import Length, pack, require_examples
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.records import require_unit
from hushdoc_training.privacy.safeguards import Safeguards, SumPlan
from hushdoc_training.privacy.summing import Sums, rounded, share_of, sum_clipped
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.sampling import Uniforms
from hushdoc_training.randomness.secret_stream import origin_of

Example = TypeVar("Example")

BACKENDS: dict[str, Callable[..., clipping.Clipper]] = {
    "book-keeping": clipping.BookKeeping,
    "opacus": clipping.OpacusHooks,
    "one-by-one": clipping.OneByOne,
}
"""Ways to clip, all to the same numbers: fast; Opacus' hooks; one backward pass per record."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What one sum was made of, in this process: private, and never to be sent.

    Attributes:
        count: Records that sampling drew, over all processes.
        losses: Of the drawn records that this process computed.
        nonfinite: Among these, records whose gradient was not finite and counted as zero.
    """

    count: int
    losses: tuple[float, ...]
    nonfinite: int


class PrivateSum(Generic[Example]):
    """Clipped sums of a holder's records, each of a draw of its own.

    Attributes:
        safeguards: What is checked before, around and after each sum.
        clipper: What clips, as it was tested.
        at_once: Most records that are added up in float32.
        most_added: Records of a step up to which so many are; of more, fewer.
    """

    def __init__(
        self,
        plan: SumPlan,
        model: nn.Module,
        *,
        records: Sequence[Sequence[Example]],
        losses: ExampleLosses[Example],
        coins: Uniforms,
        meter: Meter,
        backend: str = "book-keeping",
        clipping: str = "flat",
        max_examples: int = 32,
        multiplicity: int = 1,
        length: Callable[[Example], Length] | None = None,
        padded: bool = False,
        trial_records: Sequence[Sequence[Example]] | None = None,
        trial_losses: ExampleLosses[Example] | None = None,
        tolerance: float = 1e-3,
        charge: Callable[[int], None] | None = None,
        fingerprint: Callable[[Example], object] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        group: Group = Group(rank=0, size=1),  # noqa: B008
        noisy_loss: NoisyLoss | None = None,
        secret_noise: bool = True,
    ) -> None:
        """Tests clipper and losses; the parameters are taken until `close`.

        Args:
            plan: Unit, sampling, clipping and the last step.
            model: Whose gradients are summed; a row of sums is in the order of its trained tensors.
            records: The examples of every record.
            losses: Returns one loss for each example of a list, each of its own example alone.
            coins: What records are drawn by, from a key that nobody chose.
            meter: Notes what is drawn and how it is clipped.
            backend: One of BACKENDS.
            clipping: One of `contract.CLIPPINGS`.
            max_examples: Most examples in one physical batch.
            multiplicity: Times that each example is repeated.
            length: Of an example; records share a pass only where theirs are the same.
            padded: Whether every physical batch has `max_examples` examples.
            trial_records: Public records for the self-test; by default the first of `records`.
            trial_losses: The losses without their own randomness, for the self-test.
            tolerance: Of the self-test.
            charge: Writes down step number n for good; records are drawn when it returns.
            fingerprint: Returns what stands for an example where records are compared.
            optimizer: The only one that may move the parameters; none where weights are given.
            group: The processes that train together.
            noisy_loss: What else of a record is in the sum.
            secret_noise: Whether nobody can foretell this process's noise.

        Raises:
            PrivacyError: The guarantee would not hold.
            ValueError: An argument is out of range.
        """
        if backend not in BACKENDS or max_examples < 1 or multiplicity < 1:
            raise ValueError(
                f"backend is '{backend}', max_examples {max_examples}, multiplicity "
                f"{multiplicity}; expected one of {', '.join(BACKENDS)} and numbers from 1."
            )
        require_unit(records, plan.privacy_unit)
        self._records, self._meter, self._group = records, meter, group
        self._noisy_loss = noisy_loss
        self._expected = plan.expected_records
        # One backward pass per record over a batch of several would let an infinite example spoil
        # the others': zero times infinity is not zero.
        self._most_records = 1 if backend == "one-by-one" else max_examples
        self._pack = partial(
            pack,
            max_examples=max_examples,
            multiplicity=multiplicity,
            length=length,
            padded=padded and backend != "one-by-one",
        )
        self.safeguards = Safeguards(
            plan,
            model,
            optimizer,
            group,
            records=records,
            losses=losses,
            fingerprint=fingerprint,
            has_secret_streams=secret_noise and origin_of(coins).secret,
        )
        self._draws = Draws(
            num_records=len(records),
            rate=plan.sampling_rate,
            steps=plan.steps,
            coins=coins,
            meter=meter,
            charge=charge,
            group=group,
        )
        norm = plan.clipping_norm if noisy_loss is None else noisy_loss.of_gradient
        try:
            self.clipper = self.safeguards.self_test(
                partial(BACKENDS[backend], model, clipping_norm=norm, clipping=clipping),
                trial_records=trial_records,
                trial_losses=trial_losses,
                tolerance=tolerance,
                length=length,
                max_examples=max_examples,
            )
        except BaseException:
            self.close()
            raise
        self._adding = group.size if self.safeguards.is_sharded else 1  # processes, in one pass
        self.at_once = max(lattice.SUMMED_IN_FLOAT32, max_examples * self._adding)
        self.most_added = lattice.most_added(plan.expected_records, self.at_once)
        self._sums = Sums(self.clipper)

    @property
    def charged(self) -> int:
        """The last step that was charged, finished or not."""
        return self._draws.charged

    def close(self) -> None:
        """Gives the model back; a second time does nothing."""
        self.safeguards.end()

    def resume(self, charged: int) -> None:
        """Goes on after a step that was charged; a PrivacyError for fewer than were charged."""
        self._draws.resume(charged)
        self.safeguards.resumed()

    def take(self, number: int) -> Drawn:
        """Charges step `number`, draws its records and leaves their clipped sum in `total`.

        Raises:
            PrivacyError: The step was charged before or is not in the plan, or somebody else
                touched parameters or gradients.
        """
        self.safeguards.before_step()
        drawn = self._draws.take(number)
        losses, nonfinite = self._sum_clipped(drawn)
        return Drawn(count=len(drawn), losses=tuple(losses), nonfinite=nonfinite)

    def total(self, name: str) -> torch.Tensor:
        """Returns a parameter's clipped sum, of this process or shard; to be overwritten."""
        return self._sums.total(name)

    def clear(self) -> None:
        """Forgets the sum."""
        self._sums.clear()

    def in_steps(self, step: float) -> Integers:
        """Returns the sum in whole steps of a grid, and forgets it: private, without any noise.

        Args:
            step: Size of a step of the grid, a power of two.

        Returns:
            A row over all trained tensors of the model, shape [d], those no loss reaches included.
        """
        reached = self.safeguards.parameters
        rows = [
            rounded(self.total(name), step).reshape(-1).cpu().numpy().astype(np.int64)
            if name in reached
            else np.zeros(parameter.numel(), dtype=np.int64)
            for name, parameter in self.safeguards.trainable.items()
        ]
        self.clear()
        return np.concatenate(rows)

    def _begin(self, drawn: int) -> int:
        """Begins a sum of so many records; returns how many of them a pass may have at most.

        The grid's sensitivity allows for what float32 may be off by: more records, smaller passes.
        How many examples a pass may have stays the same, as the parts of a large record go by it.
        """
        at_once = lattice.added_at_once(drawn, at_once=self.at_once, records=self.most_added)
        if at_once < self._adding:
            raise PrivacyError(
                f"A step drew so many more than {self._expected} expected records that its sum in "
                f"float32 over {self._adding} processes may be off by more than the noise allows "
                "for. Declare more expected records, or train with fewer processes.",
                code="TOO_MANY_RECORDS",
            )
        most = min(self._most_records, at_once // self._adding)
        of_pass = most * self._adding if self._adding > 1 else None
        self._sums.begin(at_once=at_once, records_of_pass=of_pass)
        return most

    def _sum_clipped(self, drawn: Sequence[int]) -> tuple[list[float], int]:
        """Leaves the clipped sum of this process's share in the clipper."""
        records = [self._records[index] for index in drawn]
        require_examples(records)
        sharded = self.safeguards.is_sharded
        max_records = self._begin(len(records))
        packed = share_of(
            records,
            self._records,
            partial(self._pack, max_records=max_records),
            self._group,
            sharded=sharded,
        )
        norm = self.clipper.clipping_norm
        self._meter.clipped(
            norm if self._noisy_loss is None else self._noisy_loss.together_with(norm)
        )
        with self.safeguards.around_passes() as losses:
            return sum_clipped(self._sums, packed, losses, self._group, sharded=sharded)
