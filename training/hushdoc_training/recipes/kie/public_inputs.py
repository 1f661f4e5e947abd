"""What the output layer of a start reads of invented documents, by which it is whitened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch

from hushdoc.certificate.claim import PublicData
from hushdoc.labels import LabelledDocument
from hushdoc_training.data.dataset import Source, opened
from hushdoc_training.models import whitening
from hushdoc_training.recipes.kie.records import (
    IGNORED,
    collate,
    in_order,
    known_labels,
    windows_of,
)
from hushdoc_training.recipes.kie.start import Start

NUM_DOCUMENTS = 64
SOURCE = "invented:form+invoice+receipt+till-receipt"
BATCH = 16

DATA = PublicData(
    name="invented documents, whose words an output layer was scaled by",
    uses=("pretraining",),
    privacy_status="invented by a generator",
    overlap_with_protected="none",
)


def of_invented(start: Start) -> torch.Tensor:
    """Returns the inputs of the output layer for words of invented documents, [words, in]."""
    with invented(start) as documents:
        return of_documents(start, documents)


@contextmanager
def invented(start: Start) -> Iterator[Sequence[LabelledDocument]]:
    """Yields the invented documents that private training is prepared by, for a start."""
    source = Source(location=SOURCE, documents=NUM_DOCUMENTS)
    with opened(source, images=start.preprocessing.image is not None) as documents:
        yield documents


def of_documents(start: Start, documents: Iterable[LabelledDocument]) -> torch.Tensor:
    """Returns the same of public documents; the model is left in eval mode."""
    model, encoder = start.model.eval(), start.encoder
    known = known_labels(list(documents), start.labels, warned=False)
    windows = [
        window
        for labelled in in_order(known, start.preprocessing)
        for window in windows_of(labelled, encoder, start.labels)
    ]
    seen: list[torch.Tensor] = []
    _, _, layer = whitening.output_layer(model.inner)
    hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].float()))
    found = []
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            for first in range(0, len(windows), BATCH):
                batch = collate(encoder, windows[first : first + BATCH])
                model(*batch.inputs(device))
                found.append(seen.pop()[batch.targets.to(device) != IGNORED])
    finally:
        hook.remove()
    return torch.cat(found).clone()
