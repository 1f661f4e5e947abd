"""What the last layer of a pointer's reader reads of invented questions: it is whitened by that."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from hushdoc.certificate.claim import PublicData
from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data.dataset import Source, opened
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.recipes.docvqa.rows import examples_of
from hushdoc_training.recipes.docvqa.start import Start

NUM_DOCUMENTS = 24
SOURCE = "invented:form+invoice+receipt+till-receipt,questions=keyed,wordings=0:15"

DIRECTIONS = 16
"""Most directions that the layer learns in, where nobody says otherwise: noise falls on each, and
questions ask few things."""

DATA = PublicData(
    name="invented questions, by which a pointer's last layer was scaled",
    uses=("pretraining",),
    privacy_status="invented by a generator",
    overlap_with_protected="none",
)


def whiten(start: Start, model: Pointer, most: int = DIRECTIONS) -> None:
    """Freezes a start's model, and lets its last layer learn in directions of public questions."""
    with opened(Source(location=SOURCE, documents=NUM_DOCUMENTS), images=False) as documents:
        inputs = of_documents(start, model, documents)
    model.requires_grad_(False)
    setattr(model.reader, "ends", Whitened(model.reader.ends, inputs, most))  # noqa: B010


def of_documents(
    start: Start, model: Pointer, documents: Iterable[LabelledDocument]
) -> torch.Tensor:
    """Returns the layer's inputs for questions about public documents, [questions, hidden].

    The model is left in eval mode; a CheckpointError where its tokenizer knows no such question.
    """
    model.eval()
    seen: list[torch.Tensor] = []
    handle = model.reader.ends.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0].float().flatten(0, 1))
    )
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            for labelled in documents:
                for example in examples_of([labelled], start.encoder):  # alone: without padding
                    batch = start.encoder.pointed([[row.asked for row in example.rows]])
                    model(**{name: torch.from_numpy(ids).to(device) for name, ids in batch.items()})
    finally:
        handle.remove()
    if not seen:
        raise CheckpointError(
            "The start's tokenizer has no token of any invented question, by which the last layer "
            "is scaled. Choose another start, or the scaling 'none'."
        )
    return torch.cat(seen).clone()
