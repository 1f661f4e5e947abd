"""PrivateTraining: one object that draws, clips, sums, charges, adds noise, steps and claims.

Contract, from which the guarantee follows. Every record joins every step on its own coin. The
gradients of all its rows are added up and clipped once; clipped gradients are added up over all
physical batches and processes; noise of the plan's scale is added once, also where no record was
drawn; the sum is divided by the plan's public constant. A step is charged before its records are
drawn, and no more steps are taken than the plan has. The accounting event and the claim come from
the same plan. A loss may depend on its own row alone; that, and the clipper, are tested before the
first step.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.claim import Claim, DataAccess, PublicData
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import claims, clipping, guards, sharding
from hushdoc_training.privacy.distributed import Group
from hushdoc_training.privacy.entrance import watched
from hushdoc_training.privacy.ledger_runs import Statement
from hushdoc_training.privacy.noise import NoiseStream
from hushdoc_training.privacy.physical import Packed, PhysicalBatch, pack
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.sampling import (
    SharedCoins,
    Uniforms,
    poisson_sample,
    system_uniforms,
)
from hushdoc_training.privacy.trial import require_exact

Row = TypeVar("Row")

BACKENDS: dict[str, Callable[..., clipping.Clipper]] = {
    "book-keeping": clipping.book_keeping,
    "opacus": clipping.opacus_hooks,
    "one-by-one": clipping.one_by_one,
}
"""Ways to clip, all to the same numbers: fast; Opacus' hooks; one backward pass per record."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a step saw. All of it is private: for the trainer's eyes only.

    Attributes:
        number: From 1.
        drawn: Records that sampling drew, over all processes.
        losses: Of the drawn records that this process computed.
        nonfinite: Among those, records whose gradient was not finite and counted as zero.
    """

    number: int
    drawn: int
    losses: tuple[float, ...]
    nonfinite: int

    @property
    def loss(self) -> float | None:
        """The mean loss; None where no record was drawn."""
        return sum(self.losses) / len(self.losses) if self.losses else None


class PrivateTraining(Generic[Row]):
    """Private training of a torch model under a plan; use it in a `with` block."""

    def __init__(
        self,
        plan: PrivacyPlan,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        records: Sequence[Sequence[Row]],
        losses: Callable[[Sequence[Row]], torch.Tensor],
        backend: str = "book-keeping",
        max_rows: int = 32,
        multiplicity: int = 1,
        length: Callable[[Row], int] | None = None,
        padded: bool = False,
        trial: Sequence[Sequence[Row]] | None = None,
        trial_losses: Callable[[Sequence[Row]], torch.Tensor] | None = None,
        tolerance: float = 1e-3,
        charge: Callable[[int], None] | None = None,
        processes: Any = None,
        noise: NoiseStream | None = None,
        coins: Uniforms | None = None,
    ) -> None:
        """Checks everything that can be checked before a record is drawn.

        Args:
            plan: Unit, budget, sampling, clipping and noise.
            model: What is trained; freeze what shall not be. It stays in the mode it is in.
            optimizer: Over exactly the trainable parameters; only this object steps it.
            records: The rows of every record: all windows of a document, say, or one row alone.
                A row is anything that `losses` understands.
            losses: Returns one loss for each row of a list, shape [rows], by calling the model;
                each depends on its own row alone. A record's loss is the mean over its rows.
            backend: One of BACKENDS.
            max_rows: Most rows in one physical batch; bounds memory and changes nothing else.
            multiplicity: Times that each row is repeated, for losses that draw randomness of their
                own; the mean over the repetitions is clipped once.
            length: Of a row, so that rows of similar lengths are computed together.
            padded: Whether every physical batch has exactly `max_rows` rows, some of no record.
            trial: Public records for the self-test; by default the first of `records`, which the
                claim then lists as an access.
            trial_losses: The losses without their own randomness, for the self-test, if they have
                any; dropout is turned off for it anyway.
            tolerance: Of the self-test; 1e-3 is for float32, 3e-2 for bfloat16.
            charge: Writes down step number n for good; the step is taken when it returns.
            processes: torch.distributed's group, if only some processes train this model.
            noise: Tests give a stream whose key they know; nothing else may.
            coins: Tests give coins that they know; nothing else may.

        Raises:
            PrivacyError: The guarantee would not hold, or the optimizer, the model, the loss or the
                data do not fit the plan; the message names which and the way out.
            ValueError: An argument is out of range.
        """
        if backend not in BACKENDS or max_rows < 1 or multiplicity < 1:
            raise ValueError(
                f"backend is '{backend}', max_rows {max_rows}, multiplicity {multiplicity}; "
                f"expected one of {', '.join(BACKENDS)} and numbers from 1."
            )
        self._plan, self.model, self.optimizer = plan, model, optimizer
        self._charged = self.empty = self.nonfinite = 0
        self._records, self._losses, self._charge = records, losses, charge
        self._pack = partial(
            pack,
            max_rows=max_rows,
            multiplicity=multiplicity,
            length=length,
            padded=padded and backend != "one-by-one",
            # One backward pass per record over a batch of several would let an infinite row spoil
            # the others': zero times infinity is not zero.
            alone=backend == "one-by-one",
        )
        self._group = Group.found(processes)
        self._noise = noise or NoiseStream()
        self._parameters = guards.trainable(model)
        guards.require_same(optimizer, self._parameters)
        guards.require_untouched(model, self._parameters)
        guards.require_enough(len(records), plan.expected_records)
        self._tried_on_records = trial is None
        self._is_secret = coins is None and type(self._noise) is NoiseStream and self._noise.secret
        self._sharded = sharding.is_sharded(model)
        self._join(coins)
        self._owner = guards.Ownership(optimizer, self._parameters)
        weakref.finalize(self, self._owner.release)
        try:
            sharding.require_spanning(self._parameters, self._group)
            with (
                sharding.by_module(model),
                guards.unchanged_buffers(model),
                watched(model, trial_losses or losses) as tried,
            ):
                self._clipper = BACKENDS[backend](model, clipping_norm=plan.clipping_norm)
                require_exact(
                    self._clipper,
                    clipping.place(model),
                    records if trial is None else trial,
                    tried,
                    tolerance=tolerance,
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the training."""
        self.close()

    def __iter__(self) -> Iterator[Step]:
        """Takes the steps that the plan has left, one for each turn."""
        while self._charged < self._plan.steps:
            yield self.step()

    def close(self) -> None:
        """Gives model and optimizer back; a second time does nothing."""
        self._owner.release()

    def resume(self, charged: int) -> None:
        """Goes on after steps that an interrupted run charged, finished or not.

        Args:
            charged: The last step that was charged, as the ledger or the run's log says, even if
                the restored weights are of an earlier one: those steps' noise may have been seen.

        Raises:
            PrivacyError: The number is below what was charged here, or above the plan's steps.
        """
        if not self._charged <= charged <= self._plan.steps:
            raise PrivacyError(
                f"{charged} steps are said to be charged; expected {self._charged} to "
                f"{self._plan.steps}. Resume with the number that the ledger or the log holds."
            )
        self._charged = charged

    def step(self) -> Step:
        """Takes one private step.

        Raises:
            PrivacyError: All steps are taken, or somebody else touched parameters or gradients.
        """
        number = self._charged + 1
        if number > self._plan.steps:
            raise PrivacyError(
                f"All {self._plan.steps} steps of the plan are taken. Plan more steps from the "
                "start; a budget is not extended by what it showed."
            )
        guards.require_untouched(self.model, self._parameters)
        guards.require_same(self.optimizer, self._parameters)
        if self._charge is not None:
            charge = self._charge
            self._group.first_does(lambda: charge(number))
        self._charged = number
        drawn = poisson_sample(len(self._records), self._plan.sampling_rate, uniforms=self._coins)
        losses, nonfinite = self._sum_clipped(drawn)
        self._add_noise_and_step()
        self.empty += not drawn
        self.nonfinite += nonfinite
        return Step(number=number, drawn=len(drawn), losses=tuple(losses), nonfinite=nonfinite)

    @property
    def plan(self) -> PrivacyPlan:
        """What this training follows."""
        return self._plan

    @property
    def charged(self) -> int:
        """Steps that were charged, finished or not."""
        return self._charged

    def mechanism(self) -> Mechanism:
        """Returns the accounting event of all steps that were charged up to now."""
        return self._plan.mechanism(self._charged)

    @property
    def epsilon(self) -> float:
        """What the charged steps spend at the plan's delta."""
        return self._plan.epsilon_after(self._charged) if self._charged else 0.0

    def claim(
        self,
        name: str,
        public_data: tuple[PublicData, ...] = (),
        *,
        training: Mapping[str, Any] | None = None,
        hyperparameter_tuning: str = "none",
        ledger: Statement | None = None,
    ) -> Claim:
        """Returns what the model's certificate says of its training.

        It covers all steps of the plan, also where fewer were taken: then stopping early, on
        whatever was seen, needs no account of its own.

        Args:
            name: What the protected data are called.
            public_data: What the model learned from before.
            training: More settings, for people.
            hyperparameter_tuning: One of `mechanism.TUNINGS`.
            ledger: What the data's ledger says of all runs.

        Raises:
            PrivacyError: Coins or noise were given by a test, so they are known to somebody.
        """
        if not self._is_secret:
            raise PrivacyError(
                "Coins or noise were passed in, and a guarantee holds only for those that nobody "
                "knows. Leave out `coins` and `noise`; they are for tests."
            )
        tried = DataAccess(
            data=name,
            purpose="self-test of clipping on the first records: it refuses or shows nothing",
            accounted_in=(),
            treatment="not-released",
        )
        return claims.private(
            self._plan,
            name,
            public_data,
            training=training or {},
            hyperparameter_tuning=hyperparameter_tuning,
            ledger=ledger,
            accesses=(tried,) if self._tried_on_records else (),
        )

    def _join(self, coins: Uniforms | None) -> None:
        """Makes sure that all processes train the same thing, from the same weights and coins."""
        sizes = hashlib.sha256(repr([len(record) for record in self._records]).encode())
        self._group.require_agreement(
            {
                "the plan": asdict(self._plan),
                "the records": sizes.hexdigest(),
                "the model": [(name, value.shape) for name, value in self._parameters.items()],
                "whether coins and noise are secret": self._is_secret,
            }
        )
        if not self._sharded:
            values = [*self.model.parameters(), *self.model.buffers()]
            self._group.copy_from_first(value.detach() for value in values)
        shared = SharedCoins(self._group.secret()) if self._group.size > 1 else system_uniforms
        self._coins = coins or shared

    def _sum_clipped(self, drawn: Sequence[int]) -> tuple[list[float], int]:
        """Leaves the clipped sum of this process's share in the clipper."""
        self._clipper.clear()
        packed = self._packed([self._records[index] for index in drawn])
        losses: list[float] = []
        nonfinite = 0
        with (
            torch.enable_grad(),
            sharding.by_module(self.model),
            guards.unchanged_buffers(self.model),
            watched(self.model, self._losses) as losses_of,
        ):
            for batch in packed.batches:
                weighted = _weighted(losses_of, batch)
                found = self._clipper.add(weighted, torch.tensor(batch.records))
                losses += _by_record(found.losses, batch)
                nonfinite += found.nonfinite
            for number, parts in enumerate(packed.large):
                found = self._clipper.add_large(_weighted(losses_of, part) for part in parts)
                loss = found.losses.sum()
                if self._sharded:
                    self._group.sum([loss])
                    if number % self._group.size != self._group.rank:
                        continue  # another one tells of it
                losses.append(float(loss))
                nonfinite += found.nonfinite
        return losses, nonfinite

    def _packed(self, drawn: Sequence[Sequence[Row]]) -> Packed[Row]:
        """Returns this process's part of the work."""
        if not self._sharded:
            return self._pack(self._group.share(drawn))
        some = next((record[:1] for record in self._records if len(record)), ())
        return sharding.divided(drawn, some, self._pack, self._group)

    def _add_noise_and_step(self) -> None:
        """Adds noise once, sums over processes, divides by the public constant, and steps."""
        std = self._plan.noise_multiplier * self._plan.clipping_norm
        for name, parameter in self._parameters.items():
            total = self._clipper.sums[name]
            if self._sharded:  # summed already; each process has a shard to itself
                sharding.add_noise(total, parameter, self._noise, std=std)
            else:
                if self._group.is_first:
                    total.add_(self._noise.normal(total.shape, std=std).to(total.device))
                self._group.sum([total])
            total.div_(self._plan.expected_records)
            parameter.grad = sharding.as_gradient(total, parameter)
        try:
            with self._owner.stepping():
                self.optimizer.step()
        finally:
            self._clear()

    def _clear(self) -> None:
        for parameter in self._parameters.values():
            parameter.grad = None
        self._clipper.clear()


def _weighted(
    losses_of: Callable[[Sequence[Row]], torch.Tensor], batch: PhysicalBatch[Row]
) -> clipping.Losses:
    def compute() -> torch.Tensor:
        losses = losses_of(batch.rows)
        return losses * losses.new_tensor(batch.weights)

    return compute


def _by_record(losses: torch.Tensor, batch: PhysicalBatch[Any]) -> list[float]:
    sums: dict[int, float] = {}
    for value, record in zip(losses.tolist(), batch.records, strict=True):
        sums[record] = sums.get(record, 0.0) + value
    return [value for record, value in sorted(sums.items()) if record >= 0]
