"""Updates: what a client computes in a round, in whole steps of the public grid.

    FeAm              clipped sum of single gradients (PrIeD-KIE, Algorithm 1, ClientUpdate)
    ProviderUpdates   clipped sum of what some local training on each provider's documents moves
                      (Privacy-aware DocVQA, Algorithm 1, FL-PROVIDER-DP)
    FedAvgDp          what a private training of the client's own moved (FedAVG-DP)
    FedAvg            what training without privacy moved (PrIeD-KIE, Algorithm 3)

Of the first two nothing is divided by what was drawn, and no count, loss or norm comes with the
sum. All are without noise and masks, which the client adds before anything leaves it: a row from
here is as private as the documents. Weights may come from anybody; what is sent of the first three
is accounted for whatever they are, and of `FedAvg` nothing is.

So no self-test at the start's weights may be relied on later, and no two records share a pass: by
weights that were chosen for it, what one record fills another up with would count in attention, or
a rounding would grow to anything. The norm of a record is that of the very gradient that is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from hushdoc import arguments
from hushdoc.errors import PrivacyError
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.metering import Meter
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.clipping import contract
from hushdoc_training.privacy.draws import Draws
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.example_losses import ExampleLosses, checked
from hushdoc_training.privacy.physical import require_examples
from hushdoc_training.privacy.plan import LEAST_NORM, require_norm
from hushdoc_training.privacy.records import require_unit, unit_of
from hushdoc_training.privacy.released_state import Released
from hushdoc_training.privacy.summation import PrivateSum
from hushdoc_training.privacy.trained_tensors import (
    Weights,
    count,
    load,
    trained_tensors,
    weights_of,
)
from hushdoc_training.randomness import dropout_seeds
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.lattice import SUMMED_IN_FLOAT32, truncated
from hushdoc_training.randomness.sampling import Uniforms
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.receipt import Receipt

Example = TypeVar("Example")
Floats = npt.NDArray[np.float64]

ALONE = "one-by-one"
"""The backend of clients: a pass for each record, clipped by the gradient that it has there."""

TESTED = "self-test of local training on some of the providers: it refuses or shows nothing"
INDEPENDENT = (
    "what local training moves for a provider depends on the round's weights, this provider and "
    "secret draws alone"
)


class Update(Protocol):
    """What a client does in a round.

    Attributes:
        numbers: How many numbers an update has.
    """

    numbers: int

    def compute(self, weights: Weights, number: int) -> Integers:
        """Returns the client's row of a round, private and without noise.

        Args:
            weights: That the round begins with, float32, shape [d].
            number: Which of the client's own rounds it is, from 1; each once, in order.

        Returns:
            Whole steps of the grid, int64, shape [numbers].

        Raises:
            PrivacyError: The round was charged before, or is not in the plan.
            ValueError: The weights do not fit the model.
        """


@dataclass(frozen=True, kw_only=True)
class ClientPlan:
    """What a client's sums keep to.

    Attributes:
        privacy_unit: What one record is.
        sampling_rate: Probability of each record to join a round that the client takes part in.
        clipping_norm: How far (L2) one record moves the sum, before it is in whole steps.
        steps: Most rounds that the client takes part in.
        lattice_step: Size of a step of the grid, a power of two.
        expected_records: About how many records a round has: of more, fewer are added at once.
    """

    privacy_unit: str
    sampling_rate: float
    clipping_norm: float
    steps: int
    lattice_step: float
    expected_records: int

    @classmethod
    def of(cls, plan: FederatedPlan) -> Self:
        """Returns a client's part of a plan whose clients share the noise of one sum."""
        return cls(
            privacy_unit=plan.privacy_unit,
            sampling_rate=plan.client_sampling_rate,
            clipping_norm=plan.clipping_norm,
            steps=plan.cap,
            lattice_step=plan.lattice_step,
            expected_records=plan.expected_records,
        )


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Some passes of AdamW over examples, as usual: the mean loss of a batch, no clipping.

    Attributes:
        passes: Over the examples.
        batch_size: Examples in a step.
        learning_rate: Of AdamW, constant.
        weight_decay: The same; 0 makes it Adam.
    """

    passes: int = 1
    batch_size: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuses numbers that nothing is trained with."""
        arguments.integer(self.passes, what="passes")
        arguments.integer(self.batch_size, what="batch_size")
        if not 0 < self.learning_rate < float("inf") or not 0 <= self.weight_decay < float("inf"):
            raise ValueError(
                f"learning_rate is {self.learning_rate!r} and weight_decay {self.weight_decay!r}; "
                "expected finite numbers, the first above 0."
            )

    def moved(
        self,
        tensors: dict[str, nn.Parameter],
        start: Weights,
        losses: ExampleLosses[Example],
        examples: Sequence[Example],
    ) -> Floats:
        """Returns how far training moves the tensors from the start; leaves them there again."""
        load(tensors, start)
        optimizer = torch.optim.AdamW(
            tensors.values(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        try:
            for _ in range(self.passes):
                order = torch.randperm(len(examples)).tolist()
                for at in range(0, len(order), self.batch_size):
                    optimizer.zero_grad()
                    batch = [examples[index] for index in order[at : at + self.batch_size]]
                    losses(batch).mean().backward()
                    optimizer.step()
            return weights_of(tensors).astype(np.float64) - start
        finally:
            optimizer.zero_grad()
            load(tensors, start)


class FeAm(Generic[Example]):
    """FeAm-DP at a client: the clipped sum of its drawn records, a sequence or a document each.

    The sum is rounded once, after clipped gradients are added up, so that the grid's sensitivity is
    that of `lattice.of_sums`. The server divides by a public constant.

    Attributes:
        numbers: How many numbers an update has: those that are trained.
        meter: What was drawn and how it was clipped, for the client's receipt.
    """

    def __init__(
        self,
        plan: ClientPlan,
        model: nn.Module,
        *,
        records: Sequence[Sequence[Example]],
        losses: ExampleLosses[Example],
        max_examples: int = 32,
        charge: Callable[[int], None] | None = None,
        backend: str = ALONE,
        **how: Any,
    ) -> None:
        """Tests clipper and losses, as central training does; the model is taken until `close`.

        Args:
            plan: What the sums keep to.
            model: Frozen but for what is trained, as at every other party.
            records: The examples of every record, of `Records`.
            losses: Returns one loss for each example of a list, each of its own example alone.
            max_examples: Most examples in one physical batch, up to SUMMED_IN_FLOAT32, which is
                what the grid allows for.
            charge: Writes down a round for good; coins are drawn when it returns.
            backend: ALONE; any other is refused.
            how: Anything else that `PrivateSum` takes: trial records, tolerance.

        Raises:
            PrivacyError: The guarantee would not hold.
            ValueError: An argument is out of range.
        """
        _require_alone(backend)
        if max_examples > SUMMED_IN_FLOAT32:
            raise ValueError(
                f"max_examples is {max_examples}; expected at most {SUMMED_IN_FLOAT32}, which the "
                "plan's grid allows for."
            )
        self.meter = Meter(planned_steps=plan.steps, privacy_unit=unit_of(records))
        self._step = plan.lattice_step
        self._sum = PrivateSum(
            plan,
            model,
            records=records,
            losses=losses,
            coins=self._coins(),
            meter=self.meter,
            max_examples=max_examples,
            charge=charge,
            backend=backend,
            **how,
        )
        self._tensors = trained_tensors(model)
        self.numbers = count(self._tensors)

    def compute(self, weights: Weights, number: int) -> Integers:
        """Returns the sum of a round; see `Update.compute`."""
        load(self._tensors, weights)
        self._sum.take(number)
        return self._sum.in_steps(self._step)

    def resume(self, charged: int) -> None:
        """Goes on after the last round that was charged, whether it was sent or not."""
        self._sum.resume(charged)

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what a claim says of the checks: what they read, and what they assume."""
        return self._sum.safeguards.claim_details(name)

    def close(self) -> None:
        """Gives the model back; a second time does nothing."""
        self._sum.close()

    def _coins(self) -> Uniforms:
        return SecretStream()


class ProviderUpdates(Generic[Example]):
    """FL-PROVIDER-DP at a client: of each drawn provider the clipped change of local training.

    With one client it is central training with providers as units. Local training may be anything;
    what bounds a provider is that its change is clipped over all tensors together and cut off
    towards zero on the grid (`lattice.of_truncated`), which makes no norm larger, and that it is a
    function of the round's weights and this provider alone.

    Attributes:
        numbers: How many numbers an update has: those that are trained.
        meter: What was drawn and how it was clipped, for the client's receipt.
        drawn: Providers of the last round: private.
        nonfinite: Among these, those whose change was not finite and counted as zero: private.
    """

    def __init__(
        self,
        plan: ClientPlan,
        model: nn.Module,
        *,
        records: Sequence[Sequence[Example]],
        losses: ExampleLosses[Example],
        local: LocalTraining,
        charge: Callable[[int], None] | None = None,
        trial_records: Sequence[Sequence[Example]] | None = None,
        tolerance: float = 1e-3,
    ) -> None:
        """Tests that a provider's change does not depend on another's.

        Args:
            plan: What the sums keep to.
            model: Frozen but for what is trained, as at every other party.
            records: The examples of every provider, all documents together, of `Records`.
            losses: Returns one loss for each example of a list.
            local: How a provider's examples are trained on.
            charge: Writes down a round for good; coins are drawn when it returns.
            trial_records: Two or more public records for the self-test; by default the first two of
                `records`.
            tolerance: Relative difference of changes that rounding may make.

        Raises:
            PrivacyError: The guarantee would not hold.
        """
        require_norm(plan.clipping_norm)
        require_unit(records, plan.privacy_unit)
        require_examples(records)
        self._plan, self._model, self._records = plan, model, records
        self._losses, self._local = checked(losses), local
        self.meter = Meter(planned_steps=plan.steps, privacy_unit=unit_of(records))
        self._draws = Draws(
            num_records=len(records),
            rate=plan.sampling_rate,
            steps=plan.steps,
            coins=self._coins(),
            meter=self.meter,
            charge=charge,
        )
        self._tensors = trained_tensors(model)
        self.numbers = count(self._tensors)
        self._released = Released(model, self._tensors)
        self.drawn = self.nonfinite = 0
        self._tested_on_records = trial_records is None
        self._require_independence(records if trial_records is None else trial_records, tolerance)

    def compute(self, weights: Weights, number: int) -> Integers:
        """Returns the sum of a round; see `Update.compute`."""
        load(self._tensors, weights)
        drawn = self._draws.take(number)
        self.meter.clipped(self._plan.clipping_norm)
        self.drawn, self.nonfinite = len(drawn), 0
        total = np.zeros(self.numbers, dtype=np.int64)
        with dropout_seeds.secret(self._tensors.values()):
            for index in drawn:
                total += self._change(weights, self._records[index])
        self.require_kept()
        return total

    @property
    def charged(self) -> int:
        """The last round that was charged, finished or not."""
        return self._draws.charged

    def resume(self, charged: int) -> None:
        """Goes on after the last round that was charged, whether it was sent or not."""
        self._draws.resume(charged)

    def require_kept(self) -> None:
        """Raises PrivacyError if anything that is released but not trained is not as at first."""
        self._released.require_kept()

    def end(self) -> None:
        """Looks for the last time: what is done to the model afterwards is the trainer's own."""
        self._released.end()

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what a claim says of the checks: what they read, and what they assume."""
        tested = self._tested_on_records
        return claims.ClaimDetails(
            settings={"local_training": asdict(self._local)},
            accesses=claims.unaccounted(name, {TESTED: "not-released"} if tested else {}),
            assumes=(INDEPENDENT,),
        )

    def _change(self, weights: Weights, record: Sequence[Example]) -> Integers:
        """Returns a provider's change, clipped and cut off: zero where it has no finite norm."""
        moved = self._local.moved(self._tensors, weights, self._losses, record)
        norm = float(np.linalg.norm(moved))
        if not np.isfinite(norm):
            self.nonfinite += 1
            return np.zeros(self.numbers, dtype=np.int64)
        factor = min(1.0, self._plan.clipping_norm / max(norm, LEAST_NORM))
        moved *= factor * (1 - contract.SLACK)
        return truncated(moved, self._plan.lattice_step).astype(np.int64)

    def _require_independence(self, records: Sequence[Sequence[Example]], tolerance: float) -> None:
        """Raises PrivacyError where a provider's change is another one after another provider."""
        one, other = ([record for record in records if len(record)] + [(), ()])[:2]
        start = weights_of(self._tensors)

        def moved(record: Sequence[Example]) -> Floats:
            with dropout_seeds.repeated(self._tensors.values()):
                return self._local.moved(self._tensors, start, self._losses, record)

        before = moved(one)
        moved(other)
        difference = float(np.linalg.norm(moved(one) - before))
        self.require_kept()
        if not difference <= tolerance * float(np.linalg.norm(before)):
            raise PrivacyError(
                f"Training on a provider's documents moved weights by {difference:.3g} otherwise "
                "after another provider's were trained on. What one provider leaves behind (in the "
                "model, the loss or a cache) is seen in the others' updates, and no clipping "
                "bounds it. Keep nothing of examples between calls of the loss."
            )

    def _coins(self) -> Uniforms:
        return SecretStream()


class FedAvgDp(Generic[Example]):
    """FedAVG-DP at a client: its own private training goes on from the round's weights.

    Each client has the guarantee of its own training, of which every step has its noise; the row is
    made of nothing else. Its weight in the mean is a public constant, because how many records a
    client has is private.

    Attributes:
        numbers: How many numbers an update has: those that are trained.
    """

    def __init__(
        self,
        training: PrivateTraining[Example],
        *,
        steps_per_round: int,
        weight: float,
        lattice_step: float,
    ) -> None:
        """Takes a training whose plan has the steps of all rounds.

        Args:
            training: Of this client's records, charged to its own ledger, without averaging, and of
                the backend ALONE.
            steps_per_round: Local steps: epochs over the training's sampling rate.
            weight: What the change is multiplied by, a public constant; 1 for a plain mean.
            lattice_step: Size of a step of the grid that changes are rounded to.

        Raises:
            PrivacyError: The training has another backend.
        """
        arguments.integer(steps_per_round, what="steps_per_round")
        _require_alone(training.backend)
        self._training, self._weight, self._step = training, weight, lattice_step
        self._per_round = steps_per_round
        self._tensors = trained_tensors(training.model)
        self.numbers = count(self._tensors)
        self._done = 0

    @property
    def receipt(self) -> Receipt:
        """What the client's own training executed; see `PrivateTraining.receipt`."""
        return self._training.receipt

    def resume(self, charged: int, receipt: Receipt | None) -> None:
        """Goes on after the last round that was charged, with what was executed up to then."""
        # Of which weights the moments were is nothing to keep: every round begins them anew.
        self._training.resume(charged * self._per_round, restored=0, receipt=receipt)
        self._done = charged

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what a claim says of the checks: what they read, and what they assume."""
        return self._training.claim_details(name)

    def compute(self, weights: Weights, number: int) -> Integers:
        """Returns the change of a round; see `Update.compute`."""
        if number <= self._done:
            raise PrivacyError(
                f"Round {number} was asked for after round {self._done}; each is computed once.",
                code="NOT_RESERVED",
            )
        self._done = number
        load(self._tensors, weights)
        self._training.optimizer.state.clear()  # moments begin anew, as the paper's clients' do
        for _ in range(self._per_round):
            self._training.step()
        moved = weights_of(self._tensors).astype(np.float64) - weights
        return np.rint(moved * (self._weight / self._step)).astype(np.int64)


class FedAvg(Generic[Example]):
    """FedAvg at a client: local training over all its examples, without privacy.

    The row is the change times the client's number of examples, and that number behind it, so that
    the sum over clients tells the mean, and of numbers their sum alone.

    Attributes:
        numbers: How many numbers an update has: those that are trained, and one.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        examples: Sequence[Example],
        losses: ExampleLosses[Example],
        local: LocalTraining,
        lattice_step: float,
    ) -> None:
        """Keeps what it trains on.

        Args:
            model: Frozen but for what is trained, as at every other party.
            examples: All of the client.
            losses: Returns one loss for each example of a list.
            local: How they are trained on.
            lattice_step: Size of a step of the grid that changes are rounded to.
        """
        self._examples, self._losses = examples, checked(losses)
        self._local, self._step = local, lattice_step
        self._tensors = trained_tensors(model)
        self.numbers = count(self._tensors) + 1

    def compute(self, weights: Weights, number: int) -> Integers:
        """Returns the weighted change of a round; see `Update.compute`."""
        del number
        moved = self._local.moved(self._tensors, weights, self._losses, self._examples)
        steps = np.rint(moved * (len(self._examples) / self._step)).astype(np.int64)
        return np.append(steps, len(self._examples))


def _require_alone(backend: str) -> None:
    if backend != ALONE:
        raise PrivacyError(
            f"The backend is '{backend}'; expected '{ALONE}'. A coordinator may send any weights, "
            "and by some of them records that share a pass change one another's gradients. Leave "
            "it out, or train centrally."
        )
