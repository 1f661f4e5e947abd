"""What private training puts together: rows, a model and a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import nn

from hushdoc.labels import LabelledDocument
from hushdoc.runtime.encoding import EncodedPage, IntArray
from hushdoc.runtime.images import Pixels
from hushdoc.runtime.questions import Asking, QuestionRow
from hushdoc_training.federated.central import ProviderTraining
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.models.trained import Trained
from hushdoc_training.models.vt5 import IGNORED, VT5
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes.docvqa import public_inputs
from hushdoc_training.recipes.docvqa.frozen_encoder import FrozenEncoder
from hushdoc_training.recipes.docvqa.rows import NONE, Example, Row, records_of
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.kie.examples import attention, invented_page, noise_of
from hushdoc_training.recipes.kie.private import (
    BF16_TOLERANCE,
    MAX_EXAMPLES,
    MAX_TOKENS,
    optimizer_of,
    set_dropout,
)
from hushdoc_training.recipes.kie.records import drawn, mixed_precision
from hushdoc_training.recipes.kie.settings import PrivateSettings

TRIAL = ((((3, 2), 9), ((2,), 6)), (((4,), 5),), (((2, 6, 1), 7), ((5, 3), 3), ((1,), 8)))
"""Tokens of the questions, and of the window, of the invented records that the clipper is tested
on."""


def private_training(
    start: Start,
    documents: Sequence[LabelledDocument],
    plan: PrivacyPlan,
    settings: PrivateSettings,
    *,
    charge: Callable[[int], None],
    device: torch.device,
    view: PrivateView | None = None,
) -> PrivateTraining[Example]:
    """Returns private training, with all that is not to be trained frozen.

    The clipper is tried on invented rows, so that no document is read before a step is charged.

    Raises:
        AnnotationError: Providers are protected, and a document has none.
        PrivacyError: The guarantee would not hold.
    """
    records = records_of(documents, start.encoder, unit=plan.privacy_unit)
    whole = prepared(start, settings, device=device)
    model, losses = trained_part(start, settings, device=device)
    return PrivateTraining(
        plan,
        model,
        optimizer_of(whole, settings, plan),
        records=records,
        losses=losses,
        **how_to_sum(start, settings),
        averaging=settings.averaging,
        noise_distribution=settings.noise_distribution,
        charge=charge,
        view=view,
        loss_bound=settings.loss_bound,
    )


def provider_training(
    start: Start,
    documents: Sequence[LabelledDocument],
    plan: PrivacyPlan,
    settings: PrivateSettings,
    local: LocalTraining,
    *,
    charge: Callable[[int], None],
    device: torch.device,
    view: PrivateView | None = None,
) -> ProviderTraining[Example]:
    """Returns FL-PROVIDER-DP with one client, in which a record moves by training on its own.

    What no row reaches is frozen, as noise would move it otherwise. Errors are those of
    `private_training`.
    """
    unreached = {*start.unreached()}
    records = records_of(documents, start.encoder, unit=plan.privacy_unit)
    model = prepared(start, settings, device=device)
    for name, value in model.named_parameters():
        if name in unreached:
            value.requires_grad_(False)
    return ProviderTraining(
        plan,
        model,
        records=records,
        losses=partial(losses_of, start, device=device),
        local=local,
        charge=charge,
        trial_records=trial_records(start.asking, vocabulary=len(model.word_embeddings)),
        view=view,
    )


def how_to_sum(start: Start, settings: PrivateSettings) -> dict[str, Any]:
    """Returns how a start's clipped sums are computed, and the invented rows of the self-test."""
    kept = _kept_states(start.model, settings)
    few = kept and settings.scaling == "public"  # few numbers each
    most = MAX_EXAMPLES if few else min(MAX_EXAMPLES, MAX_TOKENS // _most_tokens(start))
    return {
        "backend": settings.backend,
        "clipping": settings.clipping,
        "max_examples": max(1, most),
        # What fills states up has no weight at all in a reader's attention and in its losses.
        "length": None if kept else _row_sizes if start.asking.kind == "vt5" else _window_sizes,
        "trial_records": trial_records(start.asking, vocabulary=len(start.model.word_embeddings)),
        "tolerance": BF16_TOLERANCE,
    }


def prepared(start: Start, settings: PrivateSettings, *, device: torch.device) -> Pointer | VT5:
    """Freezes what is not to be trained, and returns the start's model where it is trained.

    A pointer that is scaled learns in the last layer of its reader alone (`public_inputs`).
    """
    model = start.model.eval()  # the probe in freeze must not draw dropout masks
    start.room.freeze(model, trained=Trained.of(settings.trained))
    if settings.scaling == "public" and isinstance(model, Pointer):
        public_inputs.whiten(start, model, settings.directions or public_inputs.DIRECTIONS)
    model.to(device)
    set_dropout(model, settings.dropout)
    return model


def trained_part(
    start: Start, settings: PrivateSettings, *, device: torch.device
) -> tuple[nn.Module, ExampleLosses[Example]]:
    """Returns the model that is trained, and its losses: of a prepared start.

    Where a pointer's reader alone learns, it is trained alone, and the encoder reads a window once.
    """
    if _kept_states(start.model, settings):
        frozen = FrozenEncoder(start.model, start.encoder, device=device)
        return frozen.model, frozen.losses_of
    return start.model, partial(losses_of, start, device=device)


def _kept_states(model: nn.Module, settings: PrivateSettings) -> TypeGuard[Pointer]:
    """Returns whether a pointer's reader alone learns, from states that are computed once."""
    alone = Trained.of(settings.trained).kind == "output" and not settings.dropout
    return alone and isinstance(model, Pointer)


def _row_sizes(example: Example) -> tuple[int, ...]:
    """Returns what decides on how VT5's row of an example is filled up."""
    row = example.rows[0]
    return row.asked.num_tokens, len(row.target)


def _window_sizes(example: Example) -> tuple[int, ...]:
    """Returns what decides on how a window and its questions are filled up."""
    questions = [len(row.asked.question) for row in example.rows]
    return example.stop - example.start, len(questions), max(questions), min(questions)


def _most_tokens(start: Start) -> int:
    """Returns the most tokens of a row, those of its page's image included."""
    visual = start.model.num_visual if isinstance(start.model, VT5) else 0
    return start.asking.max_tokens + visual


def losses_of(start: Start, examples: Sequence[Example], *, device: torch.device) -> torch.Tensor:
    """Returns the loss of every example, shape [examples], each of that example alone."""
    inputs, targets = batch_of(start, examples, device=device)
    with mixed_precision(device), attention(device):
        return start.model.losses(inputs, targets)


def batch_of(
    start: Start, examples: Sequence[Example], *, device: torch.device
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns what the model's losses are of: inputs by their names, and targets."""
    batch, targets = _collated(start, examples)
    inputs = {name: torch.from_numpy(value).to(device) for name, value in batch.items()}
    return inputs, torch.from_numpy(targets).to(device)


def _collated(
    start: Start, examples: Sequence[Example]
) -> tuple[Mapping[str, IntArray | Pixels], IntArray]:
    """Returns padded inputs by their names, and targets."""
    if start.asking.kind == "vt5":
        rows = [example.rows[0] for example in examples]
        targets = np.full((len(rows), max(len(row.target) for row in rows)), IGNORED)
        for number, row in enumerate(rows):
            targets[number, : len(row.target)] = row.target
        pixels = drawn([row.image for row in rows])
        return start.encoder.batch([row.asked for row in rows], pixel_values=pixels), targets
    ends = np.full((len(examples), max(len(example.rows) for example in examples), 2), IGNORED)
    for number, example in enumerate(examples):
        ends[number, : len(example.rows)] = [row.target for row in example.rows]
    asked = [[row.asked for row in example.rows] for example in examples]
    return start.encoder.pointed(asked), ends


def trial_records(asking: Asking, *, vocabulary: int) -> list[tuple[Example, ...]]:
    """Returns invented records, so that a test of the clipper reads no protected document."""
    generator = np.random.default_rng(0)
    image = None if asking.image is None else noise_of(asking.image, generator)

    def example(questions: Sequence[int], window: int) -> Example:
        page = invented_page(window, vocabulary, generator)
        return Example(
            rows=tuple(row(question, page, place) for place, question in enumerate(questions))
        )

    def row(question: int, page: EncodedPage, place: int) -> Row:
        window = len(page.ids)
        asked = QuestionRow(
            question=generator.integers(0, vocabulary, question), page=page, start=0, stop=window
        )
        # As many of them have an answer as have none.
        answered = not place % 2
        if asking.kind == "pointer":
            ends = np.sort(generator.integers(0, window, 2)) + 1
            return Row(asked=asked, target=ends if answered else NONE, answered=answered)
        answer = generator.integers(0, vocabulary, question if answered else 0)
        target = np.append(answer, int(asking.eos_id or 0))
        return Row(asked=asked, target=target, answered=answered, image=image)

    if asking.kind == "pointer":
        return [tuple(example(*sizes) for sizes in record) for record in TRIAL]
    return [
        tuple(example([question], window) for questions, window in record for question in questions)
        for record in TRIAL
    ]
