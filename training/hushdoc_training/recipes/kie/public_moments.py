"""Second moments of a start's gradients on invented documents, by which Adam's steps are scaled.

Their labels play no part, as they are seldom those that are trained: each word's answer is drawn
from what the model itself takes for likely, so that the mean squares are the diagonal of Fisher's
information.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch.nn import functional

from hushdoc.certificate.claim import PublicData
from hushdoc.labels import LabelledDocument
from hushdoc_training.privacy import noisy_adam, ownership
from hushdoc_training.recipes.kie import public_inputs
from hushdoc_training.recipes.kie.records import IGNORED, collate, known_labels, records_of
from hushdoc_training.recipes.kie.start import Start

DATA = PublicData(
    name="invented documents, by whose gradients Adam's steps were scaled",
    uses=("pretraining",),
    privacy_status="invented by a generator",
    overlap_with_protected="none",
)


def of_invented(start: Start) -> list[torch.Tensor]:
    """Returns the second moments of all trained parameters on invented documents."""
    with public_inputs.invented(start) as documents:
        return of_documents(start, documents)


def of_documents(start: Start, documents: Iterable[LabelledDocument]) -> list[torch.Tensor]:
    """Returns the same of public documents; the model is left in eval mode."""
    parameters = list(ownership.trainable(start.model.eval()).values())
    return noisy_adam.second_moments(parameters, _losses(start, documents))


def own_loss(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Returns the mean loss of answers that are drawn by logits, shape [] from [words, tags]."""
    likely = logits.detach().float().softmax(-1).cpu()
    drawn = torch.multinomial(likely, 1, generator=generator).flatten().to(logits.device)
    return functional.cross_entropy(logits.float(), drawn)


def _losses(start: Start, documents: Iterable[LabelledDocument]) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    device = next(start.model.parameters()).device
    known = known_labels(list(documents), start.labels, warned=False)
    for record in records_of(known, start.encoder, start.labels, unit="document"):
        batch = collate(start.encoder, record)
        there = batch.targets != IGNORED
        if bool(there.any()):
            yield own_loss(start.model(*batch.inputs(device))[there.to(device)], generator)
