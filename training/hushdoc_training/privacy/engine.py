"""PrivateTraining: one object that draws, clips, sums, charges, adds noise and steps.

Contract, from which the guarantee follows. Every record joins every step by a random draw of its
own. The gradients of all its examples are added up and clipped once; clipped gradients are added up
over all physical batches and processes and rounded to a public grid; noise of the plan's scale is
added once, also where no record was drawn; the sum is divided by the plan's public constant. A step
is charged before its records are drawn, and no more steps are taken than the plan has. A loss may
depend on its own example alone; that and the clipper are tested beforehand, and `safeguards` holds
every other condition.

Its two halves stand beside it: `summation` charges, draws, clips and sums; `stepping` adds noise,
divides and steps. What a step uses it notes where it uses it; `PrivateTraining.receipt` is what
claims are made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.system import forking
from hushdoc.version import __version__
from hushdoc_training.metering import Meter
from hushdoc_training.privacy import claims, earlier_steps, ownership, sharding
from hushdoc_training.privacy.averaging import Average
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.noisy_loss import NoisyLoss
from hushdoc_training.privacy.physical import Length
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import ReceiptKept
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.records import unit_of
from hushdoc_training.privacy.safeguards import warn_of_few
from hushdoc_training.privacy.step import Step
from hushdoc_training.privacy.stepping import Noise, Stepping
from hushdoc_training.privacy.summation import BACKENDS, PrivateSum
from hushdoc_training.privacy.trained_tensors import count
from hushdoc_training.private_view import NONFINITE, PrivateView
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.lattice import Lattice
from hushdoc_training.randomness.sampling import Uniforms
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.receipt import Receipt

__all__ = ["BACKENDS", "PrivateTraining"]

Example = TypeVar("Example")


class PrivateTraining(Generic[Example]):
    """Private training of a torch model under a plan; use it in a `with` block.

    Attributes:
        model: What is trained.
        optimizer: What steps it.
        view: Notes who reads losses, counts and whatever else no noise protects.
        backend: Which of BACKENDS clips.
        is_candidate: Whether the best of several is chosen among it and others, see
            `runs.selection`: then no claim is of it alone.
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
        length: Callable[[Example], Length] | None = None,
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
            length: Of an example, where lengths differ; or several sizes. Records share a pass only
                where theirs are the same, so that what one is filled up with depends on no other.
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
        self._plan, self.model, self.optimizer = plan, model, optimizer
        self._meter = Meter(planned_steps=plan.steps, privacy_unit=unit_of(records))
        self._empty = self._nonfinite = 0
        self.is_candidate = False
        self.view, self.backend = view or PrivateView(), backend
        self._is_closed = False
        self._turn = forking.Lock()
        self._receipt = ReceiptKept(self._meter, self.view)
        noisy_loss = NoisyLoss(
            bound=loss_bound,
            clipping_norm=plan.clipping_norm,
            expected_records=plan.expected_records,
        )
        self._noisy_loss = noisy_loss
        self._group = Group.current(processes)
        self._agree_on_view()
        self._group.require_agreement(
            {
                "the version of hushdoc": __version__,
                "the version of torch": torch.__version__,
                "the optimizer": ownership.settings_of(optimizer),
                "how gradients are clipped": (backend, clipping, multiplicity),
                "whether steps are charged": charge is not None,
                "trial_records, trial_losses or fingerprint": [
                    given is None for given in (trial_records, trial_losses, fingerprint)
                ],
                # Larger records are worked on by all processes together.
                "max_examples": max_examples if sharding.is_sharded(model) else None,
                "loss_bound": loss_bound,
                "averaging": averaging,
            }
        )
        self._charges = None if charge is None else earlier_steps.Charges(charge)
        coins, noise = self._streams()
        self._average = Average(optimizer, averaging, steps=plan.steps)
        try:
            self._sum = PrivateSum(
                plan,
                model,
                records=records,
                losses=losses,
                coins=coins,
                meter=self._meter,
                backend=backend,
                clipping=clipping,
                max_examples=max_examples,
                multiplicity=multiplicity,
                length=length,
                padded=padded,
                trial_records=trial_records,
                trial_losses=trial_losses,
                tolerance=tolerance,
                charge=self._charges,
                fingerprint=fingerprint,
                optimizer=optimizer,
                group=self._group,
                noisy_loss=noisy_loss,
                secret_noise=origin_of(noise).secret,
            )
        except BaseException:
            self._average.end()
            raise
        self._safeguards = self._sum.safeguards
        self._meter.declare("checks", self._safeguards.claim_details("").declared)
        # Any process may make the claim, of weights that the first one has given to all.
        held = dict(earlier_steps.begun_with(model))
        names = sorted(self._group.any_names(held))
        self._meter.begin_with(tuple((name, held.get(name, ("",))) for name in names))
        self._left = earlier_steps.Left(
            self, self._safeguards.parameters, partial(_charged, self._meter, self._charges)
        )
        warn_of_few(len(records), plan.expected_records, self.view)
        try:
            self._lattice = self._lattice_of(noise_distribution)
        except BaseException:
            self.close()
            raise
        self._noise = Noise(
            lattice=self._lattice,
            stream=noise,
            group=self._group,
            meter=self._meter,
            divisor=plan.expected_records,
            sharded=self._safeguards.is_sharded,
        )
        self._stepping = Stepping(
            self._safeguards.parameters,
            optimizer,
            average=self._average,
            updating=self._safeguards.around_update,
        )

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the training."""
        self.close()

    def __iter__(self) -> Iterator[Step]:
        """Takes the steps that the plan has left, one for each turn."""
        while self.charged < self._plan.steps:
            yield self.step()

    def close(self) -> None:
        """Gives model and optimizer back; a second time does nothing."""
        if not self._is_closed:
            self._left.end()
        self._is_closed = True
        self._sum.close()
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
            receipt: `PrivateTraining.receipt` as it was after that step, which knows what the start
                held. Without it nothing is certified of weights that steps have moved.

        Raises:
            PrivacyError: The number is below what was charged here, or above the plan's steps.
        """
        self._sum.resume(charged)
        self._receipt.resume(charged if restored is None else restored, receipt)
        if receipt is not None and not earlier_steps.is_of_protected(self.model):
            self._meter.begin_with(())  # the weights hold the receipt's steps; it says what else
        if charged == self._plan.steps:
            self._average.release()

    def step(self) -> Step:
        """Takes one private step; threads take turns.

        Raises:
            PrivacyError: All steps are taken, or somebody else touched parameters or gradients.
        """
        with self._turn:  # or a step's sum would hold the records of another one
            return self._step()

    def _step(self) -> Step:
        number = self.charged + 1
        drawn = self._sum.take(number)
        try:
            self._stepping.step(number, self._gradient)
        finally:
            self._sum.clear()
        noisy = self._noisy_loss.released(
            drawn.losses,
            self._lattice,
            self._noise.stream,
            self._group,
            next(self.model.parameters()).device,
        )
        if number == self._plan.steps:
            self._safeguards.after_last_step()
        self._empty += not drawn.count
        self._nonfinite += drawn.nonfinite
        return Step(
            number=number,
            view=self.view,
            noisy_loss=noisy,
            _drawn=drawn.count,
            _losses=drawn.losses,
            _nonfinite=drawn.nonfinite,
        )

    @property
    def plan(self) -> PrivacyPlan:
        """What this training follows."""
        return self._plan

    @property
    def charged(self) -> int:
        """Steps that were charged, finished or not."""
        return self._sum.charged

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
    def begun_with(self) -> tuple[str, ...]:
        """Names of parameters that earlier private trainings had moved, as far as is known here."""
        return tuple(name for name, _ in self._meter.begun_with)

    @property
    def charged_to(self) -> frozenset[str]:
        """Where this process has charged steps, as `receipt.Held` has it; "" of no ledger."""
        return frozenset({""}) if self._charges is None else self._charges.seen

    @property
    def untrained_parameters(self) -> Mapping[str, nn.Parameter]:
        """Trainable parameters that no loss reaches, by name: they stay as they are."""
        return self._safeguards.untrained

    def mechanism(self) -> Mechanism:
        """Returns the accounting event of all steps that were charged up to now."""
        return self._plan.mechanism(self.charged)

    def fingerprint(self) -> str:
        """Returns a digest of what the records hold; two starts of one run have the same.

        Raises:
            PrivacyError: An example holds something whose content can't be seen.
        """
        return self._safeguards.fingerprint()

    @property
    def epsilon(self) -> float:
        """What the charged steps spend at the plan's delta."""
        return self._plan.epsilon_after(self.charged) if self.charged else 0.0

    def require_kept(self) -> None:
        """Raises PrivacyError if anything that is released moved other than by private steps."""
        self._safeguards.require_kept()

    @property
    def receipt(self) -> Receipt:
        """What was executed up to now, what an interrupted run left behind included.

        Raises:
            PrivacyError: No step was drawn, or the receipt of earlier ones is lost.
        """
        return self._receipt.receipt()

    @property
    def has_receipt(self) -> bool:
        """Whether there is a `receipt`: a step was drawn, and how earlier ones were is known."""
        return self._receipt.exists

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

    def _lattice_of(self, distribution: str | None) -> Lattice:
        """Returns the grid of sums and noise, which allows for what sums are wrong by."""
        made = lattice.of_sums(
            clipping_norm=self._plan.clipping_norm,
            noise_multiplier=self._plan.noise_multiplier,
            numbers=count(self._safeguards.parameters) + self._noisy_loss.numbers,
            distribution=distribution,
            parts=1 if self._safeguards.is_sharded else self._group.size,
            records_at_once=self._sum.at_once,
            records=self._sum.most_added,
        )
        self._group.require_agreement({"the grid of sums and noise": made})
        return made

    def _gradient(self, name: str, parameter: nn.Parameter) -> torch.Tensor:
        return self._noise.gradient(self._sum.total(name), parameter)


def _charged(meter: Meter, charges: earlier_steps.Charges | None) -> frozenset[str]:
    """Returns where all steps were charged that a training's weights hold."""
    own = frozenset({""}) if charges is None else charges.charged
    return earlier_steps.charged_in(meter.begun_with) | own
