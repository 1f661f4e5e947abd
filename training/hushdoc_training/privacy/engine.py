"""PrivateTraining: one object that draws, clips, sums, charges, adds noise and steps.

Contract, from which the guarantee follows. Every record joins every step by a random draw of its
own. The gradients of all its examples are added up and clipped once; clipped gradients are added up
over all physical batches and processes and rounded to a public grid; noise of the plan's scale is
added once, also where no record was drawn; the sum is divided by the plan's public constant. A step
is charged before its records are drawn, and no more steps are taken than the plan has. A loss may
depend on its own example alone; that and the clipper are tested beforehand, and `safeguards` holds
every other condition.

What a step uses it notes where it uses it; `PrivateTraining.receipt` is what claims are made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.errors import PrivacyError
from hushdoc_training.metering import Meter
from hushdoc_training.privacy import claims, clipping
from hushdoc_training.privacy.averaging import Average
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.noisy_loss import NoisyLoss
from hushdoc_training.privacy.physical import pack, require_examples
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.records import require_unit, unit_of
from hushdoc_training.privacy.safeguards import Safeguards, warn_of_few
from hushdoc_training.privacy.step import Step
from hushdoc_training.privacy.summing import Sums, noised, share_of, sum_clipped
from hushdoc_training.private_view import NONFINITE, PrivateView
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.lattice import SUMMED_IN_FLOAT32, Lattice
from hushdoc_training.randomness.sampling import Uniforms, poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.receipt import Receipt

Example = TypeVar("Example")

BACKENDS: dict[str, Callable[..., clipping.Clipper]] = {
    "book-keeping": clipping.BookKeeping,
    "opacus": clipping.OpacusHooks,
    "one-by-one": clipping.OneByOne,
}
"""Ways to clip, all to the same numbers: fast; Opacus' hooks; one backward pass per record."""


class PrivateTraining(Generic[Example]):
    """Private training of a torch model under a plan; use it in a `with` block.

    Attributes:
        model: What is trained.
        optimizer: What steps it.
        view: Notes who reads losses, counts and whatever else no noise protects.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        records: Sequence[Sequence[Example]],
        losses: ExampleLosses[Example],
        backend: str = "book-keeping",
        clipping: str = "flat",
        max_examples: int = 32,
        multiplicity: int = 1,
        length: Callable[[Example], int] | None = None,
        padded: bool = False,
        trial_records: Sequence[Sequence[Example]] | None = None,
        trial_losses: ExampleLosses[Example] | None = None,
        tolerance: float = 1e-3,
        noise_distribution: str | None = None,
        charge: Callable[[int], None] | None = None,
        processes: Any = None,
        fingerprint: Callable[[Example], object] | None = None,
        view: PrivateView | None = None,
        loss_bound: float | None = None,
        averaging: str = "none",
    ) -> None:
        """Checks everything that can be checked before a record is drawn.

        Args:
            plan: Unit, budget, sampling, clipping and noise.
            model: What is trained; freeze what shall not be. It stays in the mode it is in.
            optimizer: Over exactly the trainable parameters; only this object steps it.
            records: The examples of every record: all windows of a document, say, or one example
                alone. An example is anything that `losses` understands. Of `Records`, which know
                what one of them is, or nothing is certified.
            losses: Returns one loss for each example of a list, shape [examples], by calling the
                model; each depends on its own example alone. A record's loss is the mean over its
                examples.
            backend: One of BACKENDS.
            clipping: One of `contract.CLIPPINGS`: how a record's gradient is bounded, always by the
                plan's norm.
            max_examples: Most examples in one physical batch; bounds memory and changes nothing
                else.
            multiplicity: Times that each example is repeated, for losses that draw randomness of
                their own; the mean over the repetitions is clipped once.
            length: Of an example, so that examples of similar lengths are computed together.
            padded: Whether every physical batch has exactly `max_examples` examples, some of no
                record.
            trial_records: Public records for the self-test; by default the first of `records`,
                which the claim then lists as an access.
            trial_losses: The losses without their own randomness, for the self-test, if they have
                any; dropout is turned off for it anyway. The claim declares what is then assumed.
            tolerance: Of the self-test; 1e-3 is for float32, 3e-2 for bfloat16.
            noise_distribution: One of `lattice.DISTRIBUTIONS`; by default "discrete-gaussian" up
                to a million trained numbers, and "gaussian", which is faster, beyond.
            charge: Writes down step number n for good; the step is taken when it returns.
            processes: torch.distributed's group, if only some processes train this model.
            fingerprint: Returns what stands for an example where records are compared, over
                processes or with those of a run that is resumed; the example itself by default.
            view: Says whether un-noised numbers (losses, counts) that are read decide something; by
                default a claim says so once one was read.
            loss_bound: Releases each step's mean loss with noise, inside the plan's budget: see
                `noisy_loss`. A public constant; losses above it count as this much.
            averaging: One of `averaging.AVERAGES`: which average of the weights the last step
                leaves as the weights.

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
        require_unit(records, plan.privacy_unit)
        self._plan, self.model, self.optimizer = plan, model, optimizer
        self._meter = Meter(planned_steps=plan.steps, privacy_unit=unit_of(records))
        self._lost = 0  # steps in the weights that no receipt is there for
        self._charged = self._empty = self._nonfinite = 0
        self.view = view or PrivateView()
        self._records, self._charge = records, charge
        self._average = Average(optimizer, averaging, steps=plan.steps)
        self._pack = partial(
            pack,
            max_examples=max_examples,
            multiplicity=multiplicity,
            length=length,
            padded=padded and backend != "one-by-one",
            # One backward pass per record over a batch of several would let an infinite example
            # spoil the others': zero times infinity is not zero.
            alone=backend == "one-by-one",
        )
        self._noisy_loss = NoisyLoss(
            bound=loss_bound,
            clipping_norm=plan.clipping_norm,
            expected_records=plan.expected_records,
        )
        self._group = Group.current(processes)
        self._agree_on_view()
        self._coins, self._noise = self._streams()
        self._safeguards = Safeguards(
            plan,
            model,
            optimizer,
            self._group,
            records=records,
            losses=losses,
            fingerprint=fingerprint,
            has_secret_streams=all(
                origin_of(stream).secret for stream in (self._coins, self._noise)
            ),
        )
        warn_of_few(len(records), plan.expected_records, self.view)
        try:
            self._clipper = self._safeguards.self_test(
                partial(
                    BACKENDS[backend],
                    model,
                    clipping_norm=self._noisy_loss.of_gradient,
                    clipping=clipping,
                ),
                trial_records=trial_records,
                trial_losses=trial_losses,
                tolerance=tolerance,
                length=length,
                max_examples=max_examples,
            )
            self._lattice = self._lattice_of(noise_distribution, max_examples)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the training."""
        self.close()

    def __iter__(self) -> Iterator[Step]:
        """Takes the steps that the plan has left, one for each turn."""
        while self._charged < self._plan.steps:
            yield self.step()

    def close(self) -> None:
        """Gives model and optimizer back; a second time does nothing."""
        self._safeguards.end()
        self._average.end()

    def resume(
        self, charged: int, *, restored: int | None = None, receipt: Receipt | None = None
    ) -> None:
        """Goes on after steps that an interrupted run charged, finished or not.

        Args:
            charged: The last step that was charged, as the ledger or the run's log says, even if
                the restored weights are of an earlier one: those steps' noise may have been seen.
            restored: The step that the restored weights are of, 0 for those of the start; the last
                that was charged by default.
            receipt: `PrivateTraining.receipt` as it was after that step. Without it nothing is
                certified of weights that steps have moved.

        Raises:
            PrivacyError: The number is below what was charged here, or above the plan's steps.
        """
        self._safeguards.resumed(charged, least=self._charged)
        self._charged = charged
        self._lost = 0 if receipt else charged if restored is None else restored
        if receipt is not None:
            self._meter.go_on(receipt)
        if charged == self._plan.steps:
            self._average.release()

    def step(self) -> Step:
        """Takes one private step.

        Raises:
            PrivacyError: All steps are taken, or somebody else touched parameters or gradients.
        """
        number = self._charged + 1
        self._safeguards.before_step(number)
        if self._charge is not None:
            charge = self._charge
            self._group.first_does(lambda: charge(number))
        self._charged = number
        rate = self._plan.sampling_rate
        self._meter.drawn(rate, origin_of(self._coins))
        drawn = poisson_sample(len(self._records), rate, self._coins)
        losses, nonfinite = self._sum_clipped(drawn)
        self._add_noise_and_update()
        noisy = self._noisy_loss.released(
            losses, self._lattice, self._noise, self._group, next(self.model.parameters()).device
        )
        if number == self._plan.steps:
            self._safeguards.after_last_step()
        self._empty += not drawn
        self._nonfinite += nonfinite
        return Step(
            number=number,
            view=self.view,
            noisy_loss=noisy,
            _drawn=len(drawn),
            _losses=tuple(losses),
            _nonfinite=nonfinite,
        )

    @property
    def plan(self) -> PrivacyPlan:
        """What this training follows."""
        return self._plan

    @property
    def charged(self) -> int:
        """Steps that were charged, finished or not."""
        return self._charged

    @property
    def empty(self) -> int:
        """Steps that drew no record: private, and noted in the view."""
        self.view.note("the number of steps without a record")
        return self._empty

    @property
    def nonfinite(self) -> int:
        """Records whose gradient was not finite and counted as zero: private, and noted."""
        self.view.note(NONFINITE)
        return self._nonfinite

    @property
    def untrained_parameters(self) -> Mapping[str, nn.Parameter]:
        """Trainable parameters that no loss reaches, by name: they stay as they are."""
        return self._safeguards.untrained

    def mechanism(self) -> Mechanism:
        """Returns the accounting event of all steps that were charged up to now."""
        return self._plan.mechanism(self._charged)

    def fingerprint(self) -> str:
        """Returns a digest of what the records hold; two starts of one run have the same.

        Raises:
            PrivacyError: An example holds something whose content can't be seen.
        """
        return self._safeguards.fingerprint()

    @property
    def epsilon(self) -> float:
        """What the charged steps spend at the plan's delta."""
        return self._plan.epsilon_after(self._charged) if self._charged else 0.0

    def require_kept(self) -> None:
        """Raises PrivacyError if anything that is released moved other than by private steps."""
        self._safeguards.require_kept()

    @property
    def receipt(self) -> Receipt:
        """What was executed up to now, what an interrupted run left behind included.

        Raises:
            PrivacyError: No step was drawn, or the receipt of earlier ones is lost.
        """
        if self._lost:
            raise PrivacyError(
                f"The weights were resumed after step {self._lost} without the receipt of how that "
                "and earlier steps were executed, so nothing is certified of them. Resume by "
                "`PrivateRun`, which keeps it, or give `resume` the receipt.",
                code="NO_RECEIPT",
            )
        for what in self.view.unaccounted:
            self._meter.read(what)
        return self._meter.receipt()

    @property
    def has_receipt(self) -> bool:
        """Whether there is a `receipt`: a step was drawn, and how earlier ones were is known."""
        return not (self._lost or self._meter.is_empty)

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what the checks of this training add to a claim."""
        found = self._safeguards.claim_details(name)
        return replace(found, accesses=(*found.accesses, *self._noisy_loss.accesses(name)))

    def _agree_on_view(self) -> None:
        """Lets the first process alone note reads, unless all declare them unused."""
        declared = self.view.declared_unused
        self._group.require_agreement({"what is declared of un-noised numbers": declared})
        if declared and self._group.size > 1:
            self.view.note("whatever any process shows")
        if not self._group.is_first:
            self.view.lock()

    def _streams(self) -> tuple[Uniforms, SecretStream]:
        """Returns what draws records, alike in all processes, and what draws noise in this one."""
        if self._group.size == 1:
            return SecretStream(), SecretStream()
        return SecretStream(key=self._group.secret()), SecretStream()

    def _lattice_of(self, distribution: str | None, max_examples: int) -> Lattice:
        """Returns the grid of sums and noise, and begins sums whose error it allows for."""
        sharded = self._safeguards.is_sharded
        of_pass = max_examples * (self._group.size if sharded else 1)
        at_once = max(SUMMED_IN_FLOAT32, of_pass)
        self._sums = Sums(
            self._clipper, at_once=at_once, records_of_pass=of_pass if sharded else None
        )
        made = lattice.of_sums(
            clipping_norm=self._plan.clipping_norm,
            noise_multiplier=self._plan.noise_multiplier,
            numbers=sum(value.numel() for value in self._safeguards.parameters.values())
            + self._noisy_loss.numbers,
            distribution=distribution,
            parts=1 if sharded else self._group.size,
            records_at_once=at_once,
            records=2 * self._plan.expected_records + at_once,
        )
        self._group.require_agreement({"the grid of sums and noise": made})
        return made

    def _sum_clipped(self, drawn: Sequence[int]) -> tuple[list[float], int]:
        """Leaves the clipped sum of this process's share in the clipper."""
        self._sums.clear()
        records = [self._records[index] for index in drawn]
        require_examples(records)
        sharded = self._safeguards.is_sharded
        packed = share_of(records, self._records, self._pack, self._group, sharded=sharded)
        self._meter.clipped(self._noisy_loss.together_with(self._clipper.clipping_norm))
        with self._safeguards.around_passes() as losses:
            return sum_clipped(self._sums, packed, losses, self._group, sharded=sharded)

    def _add_noise_and_update(self) -> None:
        """Adds noise once, sums over processes, divides by the public constant, and steps."""
        parameters = self._safeguards.parameters
        for name, parameter in parameters.items():
            parameter.grad = noised(
                self._sums.total(name),
                parameter,
                self._lattice,
                self._noise,
                self._group,
                self._meter,
                divisor=self._plan.expected_records,
                sharded=self._safeguards.is_sharded,
            )
        try:
            self._average.begin_step(self._charged)
            with self._safeguards.around_update():
                self.optimizer.step()
        finally:
            for parameter in parameters.values():
                parameter.grad = None
            self._sums.clear()
