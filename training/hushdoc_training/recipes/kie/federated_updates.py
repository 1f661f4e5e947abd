"""What clients and server of a federated training of key information extraction compute.

The engine of central training, split between parties: documents stay at their client, which makes
an update of them by the plan's algorithm, and the server steps by the sum of updates alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from hushdoc.errors import PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import providers
from hushdoc_training.federated.plan import FEAM, FEDAVG, FEDAVG_DP, PROVIDER, FederatedPlan
from hushdoc_training.federated.server_steps import (
    MeanUpdate,
    ServerAdam,
    ServerStep,
    WeightedMean,
)
from hushdoc_training.federated.updates import (
    ClientPlan,
    FeAm,
    FedAvg,
    FedAvgDp,
    LocalTraining,
    ProviderUpdates,
)
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.kie.examples import Example, examples_of
from hushdoc_training.recipes.kie.private import (
    how_to_sum,
    invented_records,
    prepare,
    require_protected,
    set_dropout,
    trained_part,
)
from hushdoc_training.recipes.kie.records import Window, records_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start

KieUpdate = FeAm[Example] | ProviderUpdates[Example] | FedAvgDp[Example] | FedAvg[Example]


def prepared(start: Start, settings: PrivateSettings, *, device: torch.device) -> None:
    """Makes a party's model ready: frozen but for what is trained, at every party alike.

    Raises:
        PrivacyError: Settings are asked for that only central training has.
    """
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
    prepare(start, settings, device=device)
    set_dropout(start.model, settings.dropout)


def update_of(
    start: Start,
    documents: Sequence[LabelledDocument],
    plan: FederatedPlan,
    settings: PrivateSettings,
    *,
    device: torch.device,
    local: LocalTraining | None = None,
    charge: Callable[[int], None] | None = None,
) -> KieUpdate:
    """Returns what a client computes in every round, by the plan's algorithm.

    Self-tests run on invented windows, so that no document is read before a round is charged.

    Args:
        start: Whose model is `prepared`.
        documents: The client's own.
        plan: As the roster has it.
        settings: As every other party has them.
        device: Where the model is.
        local: Of `fl-provider-dp` and `fedavg`: how a client trains on its own.
        charge: Writes down a round for good, or of `fedavg-dp` a local step.

    Raises:
        AnnotationError: Providers are protected, and a document has none.
        PrivacyError: The guarantee would not hold.
        ValueError: The plan's unit is none that records are made of.
    """
    model, losses = trained_part(start, settings, device=device)
    local = local or LocalTraining()
    if plan.algorithm == PROVIDER:
        return ProviderUpdates(
            ClientPlan.of(plan),
            model,
            records=providers_of(start, documents),
            losses=losses,
            local=local,
            charge=charge,
            trial_records=invented_records(start),
        )
    require_protected(start, plan.privacy_unit)
    windows = records_of(documents, start.encoder, start.labels, unit=plan.privacy_unit)
    records = windows.each(examples_of)
    if plan.algorithm == FEAM:
        return FeAm(
            ClientPlan.of(plan),
            model,
            records=records,
            losses=losses,
            charge=charge,
            **how_to_sum(start, settings),
        )
    if plan.algorithm == FEDAVG:
        return FedAvg(
            model,
            examples=[example for record in records for example in record],
            losses=losses,
            local=local,
            lattice_step=plan.lattice_step,
        )
    own = own_plan(plan)
    parameters = [value for value in model.parameters() if value.requires_grad]
    training = PrivateTraining(
        own,
        model,
        torch.optim.Adam(parameters, lr=settings.learning_rate),
        records=records,
        losses=losses,
        charge=charge,
        noise_distribution=settings.noise_distribution,
        **how_to_sum(start, settings),
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


def providers_of(start: Start, documents: Sequence[LabelledDocument]) -> Records[Example]:
    """Returns records of all windows of a provider; an AnnotationError where one is missing."""
    windows = records_of(documents, start.encoder, start.labels, unit="document")
    groups: dict[str, list[Window]] = {}
    for labelled, record in zip(documents, windows, strict=True):
        groups.setdefault(providers.name_of(labelled), []).extend(record)
    return Records(list(groups.values()), unit="provider").each(examples_of)
