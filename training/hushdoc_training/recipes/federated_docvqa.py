"""What a client of a federated training on questions trains on, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from hushdoc.labels import LabelledDocument
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.recipes import federated_updates
from hushdoc_training.recipes.docvqa import private
from hushdoc_training.recipes.docvqa.private import how_to_sum, trained_part
from hushdoc_training.recipes.docvqa.rows import Example, records_of
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.docvqa.training import require_known
from hushdoc_training.recipes.federated_updates import ClientUpdate, Material, require_shared
from hushdoc_training.recipes.kie.records import in_order
from hushdoc_training.recipes.kie.settings import PrivateSettings


def prepared(start: Start, settings: PrivateSettings, *, device: torch.device) -> None:
    """Makes a party's model ready: frozen but for what is trained, at every party alike.

    What no row reaches is frozen too: it would be sent, and nothing but noise would move it.

    Raises:
        PrivacyError: Settings are asked for that this training does not have.
    """
    require_shared(settings)
    require_known(settings, start.asking)
    unreached = {*start.unreached()}
    private.prepared(start, settings, device=device)
    for name, value in start.model.named_parameters():
        if name in unreached:
            value.requires_grad_(False)


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
    """Returns what a client computes in every round; see `recipes.federated_updates.update_of`.

    A record is everything of one provider or one document, whatever the algorithm.
    """
    read = in_order(documents, start.asking.of_pages)
    records = records_of(read, start.encoder, unit=plan.privacy_unit)
    model, losses = trained_part(start, settings, device=device)
    material = Material(
        model=model, records=records, losses=losses, how_to_sum=how_to_sum(start, settings)
    )
    return federated_updates.update_of(material, plan, settings, local=local, charge=charge)
