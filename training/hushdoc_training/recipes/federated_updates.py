"""What clients and server of a federated training compute, whichever task it is.

The engine of central training, split between parties: documents stay at their client, which makes
an update of them by the plan's algorithm, and the server steps by the sum of updates alone. A task
hands in what it trains, its records and their losses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.federated.plan import FEAM, FEDAVG, FEDAVG_DP, PROVIDER, FederatedPlan
from hushdoc_training.federated.server_steps import (
    MeanUpdate,
    ServerAdam,
    ServerStep,
    WeightedMean,
)
from hushdoc_training.federated.updates import (
    ALONE,
    ClientPlan,
    FeAm,
    FedAvg,
    FedAvgDp,
    LocalTraining,
    ProviderUpdates,
)
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.kie.settings import PrivateSettings

Example = TypeVar("Example")

ClientUpdate = FeAm[Example] | ProviderUpdates[Example] | FedAvgDp[Example] | FedAvg[Example]


@dataclass(frozen=True, kw_only=True)
class Material(Generic[Example]):
    """What a task hands in for one client.

    Attributes:
        model: Frozen but for what is trained, as at every other party.
        records: The client's, of the plan's privacy unit.
        losses: Returns one loss for each example of a list.
        how_to_sum: How clipped sums are computed, and the invented `trial_records` of self-tests,
            so that no document is read before a round is charged.
    """

    model: nn.Module
    records: Records[Example]
    losses: ExampleLosses[Example]
    how_to_sum: Mapping[str, Any]


def require_shared(settings: PrivateSettings) -> None:
    """Raises PrivacyError where settings are asked for that only central training has."""
    unknown = {
        "optimizer": (settings.optimizer, "adam"),
        "averaging": (settings.averaging, "none"),
        "loss_bound": (settings.loss_bound, None),
    }
    for name, (found, expected) in unknown.items():
        if found != expected:
            raise PrivacyError(
                f"{name} is {found!r}, which federated training does not have; expected "
                f"{expected!r}. Train centrally, or leave it out."
            )


def update_of(
    material: Material[Example],
    plan: FederatedPlan,
    settings: PrivateSettings,
    *,
    local: LocalTraining | None = None,
    charge: Callable[[int], None] | None = None,
) -> ClientUpdate[Example]:
    """Returns what a client computes in every round, by the plan's algorithm.

    Args:
        material: What the task hands in.
        plan: As the roster has it.
        settings: As every other party has them.
        local: Of `fl-provider-dp` and `fedavg`: how a client trains on its own.
        charge: Writes down a round for good, or of `fedavg-dp` a local step.

    Raises:
        PrivacyError: The guarantee would not hold.
    """
    common: dict[str, Any] = {"losses": material.losses, "charge": charge}
    local = local or LocalTraining()
    if plan.algorithm == PROVIDER:
        return ProviderUpdates(
            ClientPlan.of(plan),
            material.model,
            records=material.records,
            local=local,
            trial_records=material.how_to_sum["trial_records"],
            **common,
        )
    if plan.algorithm == FEDAVG:
        return FedAvg(
            material.model,
            examples=[example for record in material.records for example in record],
            losses=material.losses,
            local=local,
            lattice_step=plan.lattice_step,
        )
    common |= {"records": material.records, **material.how_to_sum, "backend": ALONE}
    if plan.algorithm == FEAM:
        return FeAm(ClientPlan.of(plan), material.model, **common)
    parameters = [value for value in material.model.parameters() if value.requires_grad]
    training = PrivateTraining(
        own_plan(plan),
        material.model,
        torch.optim.Adam(parameters, lr=settings.learning_rate),
        noise_distribution=settings.noise_distribution,
        **common,
    )
    return FedAvgDp(
        training,
        steps_per_round=plan.local_steps,
        weight=1.0,
        lattice_step=plan.lattice_step,
    )


def own_plan(plan: FederatedPlan) -> PrivacyPlan:
    """Returns what one client of `fedavg-dp` trains by: its own epsilon, over all its rounds.

    Its divisor is the client's part of the plan's expected records.
    """
    if plan.epsilon is None or plan.delta is None:
        raise ValueError(f"{plan.algorithm} has no budget, and a client's own training needs one.")
    return PrivacyPlan(
        privacy_unit=plan.privacy_unit,
        epsilon=plan.epsilon,
        delta=plan.delta,
        sampling_rate=plan.client_sampling_rate,
        steps=plan.cap * plan.local_steps,
        clipping_norm=plan.clipping_norm,
        noise_multiplier=plan.noise_multiplier,
        expected_records=max(1, plan.expected_records // plan.clients),
        accountant=plan.accountant,
    )


def server_step_of(plan: FederatedPlan, settings: PrivateSettings) -> ServerStep:
    """Returns how the server steps by sums, by the plan's algorithm."""
    step = plan.lattice_step
    if plan.algorithm == FEAM:
        return ServerAdam(
            plan.numbers,
            lattice_step=step,
            divisor=plan.expected_records,
            learning_rate=partial(learning_rate, settings, plan.rounds),
        )
    if plan.algorithm == FEDAVG:
        return WeightedMean(lattice_step=step)
    divisor = plan.clients_per_round if plan.algorithm == FEDAVG_DP else plan.expected_records
    return MeanUpdate(lattice_step=step, divisor=divisor)


def learning_rate(settings: PrivateSettings, rounds: int, number: int) -> float:
    """Returns the server's rate in a round, from 1."""
    share = (number - 1) / rounds if settings.decay else 0.0
    return settings.learning_rate * (1 - share)
