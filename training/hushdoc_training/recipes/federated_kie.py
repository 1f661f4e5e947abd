"""What a client of a federated training of key information extraction trains on, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from hushdoc.labels import LabelledDocument
from hushdoc_training.data import providers
from hushdoc_training.federated.plan import PROVIDER, FederatedPlan
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.privacy.records import UNIT_DEFINITIONS, Records
from hushdoc_training.recipes import federated_updates
from hushdoc_training.recipes.federated_updates import ClientUpdate, Material, require_shared
from hushdoc_training.recipes.kie.examples import Example, examples_of
from hushdoc_training.recipes.kie.private import (
    how_to_sum,
    prepare,
    require_protected,
    set_dropout,
    trained_part,
)
from hushdoc_training.recipes.kie.records import Window, records_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start


def prepared(start: Start, settings: PrivateSettings, *, device: torch.device) -> None:
    """Makes a party's model ready: frozen but for what is trained, at every party alike.

    Raises:
        PrivacyError: Settings are asked for that only central training has.
    """
    require_shared(settings)
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
) -> ClientUpdate[Example]:
    """Returns what a client computes in every round; see `recipes.federated_updates.update_of`."""
    model, losses = trained_part(start, settings, device=device)
    if plan.algorithm == PROVIDER:
        records = providers_of(start, documents)
    else:
        require_protected(start, plan.privacy_unit)
        windows = records_of(documents, start.encoder, start.labels, unit=plan.privacy_unit)
        records = windows.each(examples_of)
    material = Material(
        model=model, records=records, losses=losses, how_to_sum=how_to_sum(start, settings)
    )
    return federated_updates.update_of(material, plan, settings, local=local, charge=charge)


def unit_definition(unit: str) -> str:
    """Returns what one unit is, in a certificate."""
    told = f"; {providers.TOLD}" if unit == "provider" else ""
    return f"{UNIT_DEFINITIONS[unit]}{told}"


def providers_of(start: Start, documents: Sequence[LabelledDocument]) -> Records[Example]:
    """Returns records of all windows of a provider; an AnnotationError where one is missing."""
    windows = records_of(documents, start.encoder, start.labels, unit="document")
    groups: dict[str, list[Window]] = {}
    for labelled, record in zip(documents, windows, strict=True):
        groups.setdefault(providers.name_of(labelled), []).extend(record)
    return Records(list(groups.values()), unit="provider").each(examples_of)
