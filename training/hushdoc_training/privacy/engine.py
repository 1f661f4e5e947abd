"""PrivateTraining: one object that draws, clips, sums, charges, adds noise, steps and claims.

Contract, from which the guarantee follows. Every record joins every step on its own coin. The
gradients of all its rows are added up and clipped once; clipped gradients are added up over all
physical batches and processes; noise of the plan's scale is added once, also where no record was
drawn; the sum is divided by the plan's public constant. A step is charged before its records are
drawn, and no more steps are taken than the plan has. The accounting event and the claim come from
the same plan. A loss may depend on its own row alone; that and the clipper are tested beforehand.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc_training.ledger.runs import Statement
from hushdoc_training.privacy import claims, clipping, guards, same_records, sharding
from hushdoc_training.privacy import trial as reach
from hushdoc_training.privacy.example_losses import checked, watched
from hushdoc_training.privacy.physical import pack, require_rows
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.released_state import Released
from hushdoc_training.privacy.step import Step
from hushdoc_training.privacy.summing import noised, share_of, sum_clipped
from hushdoc_training.privacy.trial import assumed_of_losses, require_exact
from hushdoc_training.randomness import dropout_seeds
from hushdoc_training.randomness.sampling import Uniforms, poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream

Row = TypeVar("Row")

BACKENDS: dict[str, Callable[..., clipping.Clipper]] = {
    "book-keeping": clipping.book_keeping,
    "opacus": clipping.opacus_hooks,
    "one-by-one": clipping.one_by_one,
}
"""Ways to clip, all to the same numbers: fast; Opacus' hooks; one backward pass per record."""


class PrivateTraining(Generic[Row]):
    """Private training of a torch model under a plan; use it in a `with` block.

    Attributes:
        left_out: Trainable parameters that no loss reaches, by name: they stay as they are.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        records: Sequence[Sequence[Row]],
        losses: Callable[[Sequence[Row]], torch.Tensor],
        backend: str = "book-keeping",
        max_examples: int = 32,
        multiplicity: int = 1,
        length: Callable[[Row], int] | None = None,
        padded: bool = False,
        trial: Sequence[Sequence[Row]] | None = None,
        trial_losses: Callable[[Sequence[Row]], torch.Tensor] | None = None,
        tolerance: float = 1e-3,
        charge: Callable[[int], None] | None = None,
        processes: Any = None,
        fingerprint: Callable[[Row], object] | None = None,
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
            max_examples: Most rows in one physical batch; bounds memory and changes nothing else.
            multiplicity: Times that each row is repeated, for losses that draw randomness of their
                own; the mean over the repetitions is clipped once.
            length: Of a row, so that rows of similar lengths are computed together.
            padded: Whether every physical batch has exactly `max_examples` rows, some of no record.
            trial: Public records for the self-test; by default the first of `records`, which the
                claim then lists as an access.
            trial_losses: The losses without their own randomness, for the self-test, if they have
                any; dropout is turned off for it anyway. The claim states what then is assumed.
            tolerance: Of the self-test; 1e-3 is for float32, 3e-2 for bfloat16.
            charge: Writes down step number n for good; the step is taken when it returns.
            processes: torch.distributed's group, if only some processes train this model.
            fingerprint: Returns what stands for a row where records are compared, over processes
                or with those of a run that is resumed; the row itself by default.

        Raises:
            PrivacyError: The guarantee would not hold, or the optimizer, the model, the loss or the
                data do not fit the plan; the message names which and the way out.
            ValueError: An argument is out of range.
        """
        if backend not in BACKENDS or max_examples < 1 or multiplicity < 1:
            raise ValueError(
                f"backend is '{backend}', max_examples {max_examples}, multiplicity "
                f"{multiplicity}; expected one of {', '.join(BACKENDS)} and numbers from 1."
            )
        self._plan, self.model, self.optimizer = plan, model, optimizer
        self._charged = self.empty = self.nonfinite = 0
        some = records if trial is None else trial
        for given in (records, some):
            require_rows(given)
        self._records, self._losses, self._charge = records, checked(losses), charge
        self._fingerprint, self._digest = fingerprint, ""
        self._pack = partial(
            pack,
            max_examples=max_examples,
            multiplicity=multiplicity,
            length=length,
            padded=padded and backend != "one-by-one",
            # One backward pass per record over a batch of several would let an infinite row spoil
            # the others': zero times infinity is not zero.
            alone=backend == "one-by-one",
        )
        self._group = Group.found(processes)
        self._trainable = self._parameters = guards.trainable(model)
        self.left_out: dict[str, nn.Parameter] = {}
        guards.require_same(optimizer, self._parameters)
        guards.require_untouched(model, self._parameters)
        guards.require_enough(len(records), plan.expected_records)
        self._tried_on_records = trial is None
        self._coins, self._noise = self._streams()
        self._is_secret = all(
            type(stream) is SecretStream and stream.secret for stream in (self._coins, self._noise)
        )
        self._sharded = sharding.is_sharded(model)
        self._join()
        self._owner = guards.Ownership(optimizer, self._parameters)
        weakref.finalize(self, self._owner.release)
        self._released = Released(model, self._parameters)
        try:
            sharding.require_spanning(self._parameters, self._group)
            with (
                self._released.unwritten(),
                sharding.by_module(model),
                clipping.uncompiled(),
                watched(model, self._losses) as trained_with,
                watched(model, checked(trial_losses or losses)) as tried,
                self._reached(trained_with, some),
            ):
                self._clipper = BACKENDS[backend](model, clipping_norm=plan.clipping_norm)
                self._tried_as_trained = require_exact(
                    self._clipper,
                    clipping.place(model),
                    some,
                    tried,
                    tolerance=tolerance,
                    length=length,
                    drawing=trained_with if trial_losses else None,
                )
                same_records.require_same_losses(
                    model,
                    tried,
                    records,
                    self._group,
                    max_examples=max_examples,
                    tolerance=tolerance,
                )
            self._released.begin(self._parameters)
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
        self._released.end()

    def resume(self, charged: int) -> None:
        """Goes on after steps that an interrupted run charged, finished or not.

        Args:
            charged: The last step that was charged, as the ledger or the run's log says, even if
                the restored weights are of an earlier one: those steps' noise may have been seen.

        Raises:
            PrivacyError: The number is below what was charged here, or above the plan's steps.
        """
        guards.require_between(charged, self._charged, self._plan.steps)
        self._charged = charged
        self._released.begin()

    def step(self) -> Step:
        """Takes one private step.

        Raises:
            PrivacyError: All steps are taken, or somebody else touched parameters or gradients.
        """
        number = self._charged + 1
        guards.require_planned(number, self._plan.steps)
        guards.require_untouched(self.model, self._trainable)
        guards.require_same(self.optimizer, self._trainable)
        if self._charge is not None:
            charge = self._charge
            self._group.first_does(lambda: charge(number))
        self._charged = number
        drawn = poisson_sample(len(self._records), self._plan.sampling_rate, self._coins)
        losses, nonfinite = self._sum_clipped(drawn)
        self._add_noise_and_step()
        if number == self._plan.steps:
            self._released.end()
            self._released.require_kept()
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

    def fingerprint(self) -> str:
        """Returns a digest of what the records hold; two starts of one run have the same.

        Raises:
            PrivacyError: A row holds something whose content can't be seen.
        """
        self._digest = self._digest or same_records.of_records(self._records, self._fingerprint)
        return self._digest

    @property
    def epsilon(self) -> float:
        """What the charged steps spend at the plan's delta."""
        return self._plan.epsilon_after(self._charged) if self._charged else 0.0

    def require_kept(self) -> None:
        """Raises PrivacyError if anything that is released moved other than by private steps."""
        self._released.require_kept()

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
            hyperparameter_tuning: One of `vocabulary.TUNINGS`.
            ledger: What the data's ledger says of all runs.

        Raises:
            PrivacyError: Coins or noise were given by a test, so they are known to somebody; or
                buffers or frozen parameters are not as they were at the start.
        """
        self.require_kept()
        guards.require_secret(secret=self._is_secret)
        told = self.claim_details(name)
        return claims.private(
            self._plan,
            name,
            public_data,
            training={**(training or {}), **told.settings},
            hyperparameter_tuning=hyperparameter_tuning,
            ledger=ledger,
            accesses=told.accesses,
            assumes=told.assumes,
        )

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what the checks of this training add to a claim; `claim` has it in.

        Args:
            name: What the protected data are called.
        """
        return claims.ClaimDetails(
            settings=reach.settings(self.left_out),
            accesses=claims.looked_at(
                name,
                tried=self._tried_on_records,
                compared=self._group.size > 1,
                left_out=bool(self.left_out),
            ),
            assumes=(
                *same_records.assumed(self._records, self._fingerprint, self._group),
                *assumed_of_losses(self._tried_as_trained),
            ),
        )

    def _reached(
        self, losses: reach.Losses[Row], records: Sequence[Sequence[Row]]
    ) -> AbstractContextManager[None]:
        """Leaves out what no loss reaches, and freezes it inside the block."""
        if not self._sharded:
            self.left_out = reach.left_out(self.model, self._trainable, losses, records)
        self._group.require_agreement({"what no loss reaches": sorted(self.left_out)})
        self._parameters = {n: p for n, p in self._trainable.items() if n not in self.left_out}
        return reach.frozen(self.left_out.values())

    def _streams(self) -> tuple[Uniforms, SecretStream]:
        """Returns what draws records, alike in all processes, and what draws noise in this one."""
        if self._group.size == 1:
            return SecretStream(), SecretStream()
        return SecretStream.shared(self._group.secret()), SecretStream()

    def _join(self) -> None:
        """Makes sure that all processes train the same thing, from the same weights and coins."""
        self._group.require_agreement(
            {
                "the plan": asdict(self._plan),
                "the model": [(name, value.shape) for name, value in self._parameters.items()],
                "whether coins and noise are secret": self._is_secret,
            }
        )
        same_records.require_same_content(self.fingerprint, self._group)
        if not self._sharded:
            values = [*self.model.parameters(), *self.model.buffers()]
            self._group.copy_from_first(value.detach() for value in values)

    def _sum_clipped(self, drawn: Sequence[int]) -> tuple[list[float], int]:
        """Leaves the clipped sum of this process's share in the clipper."""
        self._clipper.clear()
        records = [self._records[index] for index in drawn]
        require_rows(records)
        packed = share_of(records, self._records, self._pack, self._group, sharded=self._sharded)
        with (
            torch.enable_grad(),
            dropout_seeds.secret(self._parameters.values()),
            self._released.unwritten(),
            sharding.by_module(self.model),
            watched(self.model, reach.closed(self._losses, self.left_out)) as losses_of,
        ):
            return sum_clipped(self._clipper, packed, losses_of, self._group, sharded=self._sharded)

    def _add_noise_and_step(self) -> None:
        """Adds noise once, sums over processes, divides by the public constant, and steps."""
        for name, parameter in self._parameters.items():
            parameter.grad = noised(
                self._clipper.sums[name],
                parameter,
                self._plan,
                self._noise,
                self._group,
                sharded=self._sharded,
            )
        try:
            with self._owner.stepping():
                self.optimizer.step()
        finally:
            for parameter in self._parameters.values():
                parameter.grad = None
            self._clipper.clear()
