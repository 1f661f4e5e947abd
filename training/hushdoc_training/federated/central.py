"""FL-PROVIDER-DP with one client, which is central training whose steps are clipped changes.

Privacy-aware DocVQA (Tito et al. 2024) trains so, Algorithm 1 with one client that always takes
part: each provider joins a step by a draw of its own, what some local training on its documents
moves is clipped, and the noised sum over a public constant is added to the weights. Noise is added
here, on the grid that `updates.ProviderUpdates` sums on; a run takes the steps as it takes those of
a `PrivateTraining`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.federated.updates import ClientPlan, LocalTraining, ProviderUpdates
from hushdoc_training.privacy import claims, earlier_steps, same_records
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import ReceiptKept
from hushdoc_training.privacy.step import Step
from hushdoc_training.privacy.stepping import Stepping
from hushdoc_training.privacy.trained_tensors import Weights, trained_tensors, weights_of
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.receipt import Receipt

Example = TypeVar("Example")


class ProviderTraining(Generic[Example]):
    """Private training of a torch model by clipped changes; see `PrivateTraining` for the members.

    Attributes:
        model: What is trained.
        optimizer: Adds a step's mean change to the weights; it has no state and no rate to choose.
        view: Notes who reads counts, or whatever else no noise protects.
        untrained_parameters: None: freeze what no example reaches.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        model: nn.Module,
        *,
        records: Sequence[Sequence[Example]],
        losses: ExampleLosses[Example],
        local: LocalTraining,
        charge: Callable[[int], None] | None = None,
        trial_records: Sequence[Sequence[Example]] | None = None,
        view: PrivateView | None = None,
    ) -> None:
        """Checks what `ProviderUpdates` checks, whose arguments these are.

        Raises:
            PrivacyError: The guarantee would not hold.
        """
        self._plan, self.model, self._records = plan, model, records
        self.view = view or PrivateView()
        self.untrained_parameters: dict[str, nn.Parameter] = {}
        self._lattice = lattice.of_truncated(
            norm=plan.clipping_norm, noise_multiplier=plan.noise_multiplier
        )
        self._charges = None if charge is None else earlier_steps.Charges(charge)
        self._update = ProviderUpdates(
            ClientPlan(
                privacy_unit=plan.privacy_unit,
                sampling_rate=plan.sampling_rate,
                clipping_norm=plan.clipping_norm,
                steps=plan.steps,
                lattice_step=self._lattice.step,
                expected_records=plan.expected_records,
            ),
            model,
            records=records,
            losses=losses,
            local=local,
            charge=self._charges,
            trial_records=trial_records,
        )
        self._tensors = trained_tensors(model)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self._tensors.values(), lr=1.0)
        self._stepping = Stepping(self._tensors, self.optimizer)
        self._stream = SecretStream()
        self._receipt = ReceiptKept(self._update.meter, self.view)
        self._left: Weights | None = None
        self._moved = earlier_steps.Moved(self._tensors)
        self._update.meter.begin_with(earlier_steps.begun_with(model))
        self._update.meter.declare("checks", self._update.claim_details("").declared)

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the training, of which nothing is held; a later one knows what it has moved."""
        own = {""} if self._charges is None else self._charges.charged
        held = earlier_steps.charged_in(self._update.meter.begun_with)
        self._moved.end(self._tensors, charged=held.union(own))

    @property
    def plan(self) -> PrivacyPlan:
        """What this training follows."""
        return self._plan

    @property
    def charged(self) -> int:
        """Steps that were charged, finished or not."""
        return self._update.charged

    def step(self) -> Step:
        """Takes one private step.

        Raises:
            PrivacyError: All steps are taken, or somebody else moved a parameter.
        """
        number = self.charged + 1
        self._require_own()
        total = self._update.compute(weights_of(self._tensors), number)
        self._apply(number, total)
        self._left = weights_of(self._tensors)
        if number == self._plan.steps:
            self._update.end()
        return Step(
            number=number,
            view=self.view,
            _drawn=self._update.drawn,
            _losses=(),
            _nonfinite=self._update.nonfinite,
        )

    def resume(
        self, charged: int, *, restored: int | None = None, receipt: Receipt | None = None
    ) -> None:
        """Goes on after steps that an interrupted run charged; see `PrivateTraining.resume`."""
        self._update.resume(charged)
        self._receipt.resume(charged if restored is None else restored, receipt)
        self._left = None
        if receipt is not None and not earlier_steps.is_of_protected(self.model):
            self._update.meter.begin_with(())
        if charged == self._plan.steps:
            self._update.end()

    def require_kept(self) -> None:
        """Raises PrivacyError if anything that is released moved other than by private steps."""
        self._require_own()
        self._update.require_kept()

    @property
    def receipt(self) -> Receipt:
        """What was executed up to now, what an interrupted run left behind included."""
        return self._receipt.receipt()

    @property
    def has_receipt(self) -> bool:
        """Whether there is a `receipt`: a step was drawn, and how earlier ones were is known."""
        return self._receipt.exists

    def fingerprint(self) -> str:
        """Returns a digest of what the records hold; two starts of one run have the same."""
        return same_records.of_records(self._records, None)

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what the checks of this training add to a claim."""
        self.require_kept()
        return self._update.claim_details(name)

    def _apply(self, number: int, total: Any) -> None:
        """Adds noise to a sum in whole steps, and the quotient by a public constant to weights."""
        grid, meter = self._lattice, self._update.meter
        meter.noised(
            std=grid.deviation,
            sensitivity=grid.reach,
            origin=origin_of(self._stream),
            distribution=grid.distribution,
        )
        meter.divided(self._plan.expected_records)
        noised = total + grid.noise(self._stream, total.shape).astype(np.int64)
        # The optimizer takes off what it is given.
        self._stepping.apply(number, noised, worth=-grid.step / self._plan.expected_records)

    def _require_own(self) -> None:
        if self._left is not None and not np.array_equal(self._left, weights_of(self._tensors)):
            raise PrivacyError(
                "The trained parameters are not as the last private step left them, and what moved "
                "them was neither clipped nor noised. Let nothing else write to the model."
            )
