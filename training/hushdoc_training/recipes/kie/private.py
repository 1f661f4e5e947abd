"""What private key information extraction puts together: documents, a layout model and a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.models import layout, whitening
from hushdoc_training.models.trained import Trained
from hushdoc_training.privacy import ownership
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.noisy_adam import NoisyAdam
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes.kie import public_inputs, public_moments
from hushdoc_training.recipes.kie.examples import (
    Example,
    examples_of,
    length_of,
    losses_of,
    trial_records,
)
from hushdoc_training.recipes.kie.frozen_encoder import FrozenEncoder
from hushdoc_training.recipes.kie.records import records_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start

UNITS = ("document", "sequence")
"""Privacy units that records can be made of here."""

MAX_EXAMPLES, MAX_TOKENS = 32, 4096
"""Most windows and tokens in one physical batch: bounds memory and time, changes nothing else."""

BF16_TOLERANCE = 3e-2
"""Difference that rounding to bfloat16 makes in a norm."""


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

    The clipper is tried on invented windows, so that no document is read before a step is charged.
    Factors of low rank join the model, and the caller merges them (`adapters.merging`).
    """
    require_protected(start, plan.privacy_unit)
    prepare(start, settings, device=device)
    optimizer = _optimizer(start, settings, plan)
    set_dropout(start.model, settings.dropout)
    windows = records_of(documents, start.encoder, start.labels, unit=plan.privacy_unit)
    model, losses = trained_part(start, settings, device=device)
    return PrivateTraining(
        plan,
        model,
        optimizer,
        records=windows.each(examples_of),
        losses=losses,
        **how_to_sum(start, settings),
        averaging=settings.averaging,
        noise_distribution=settings.noise_distribution,
        charge=charge,
        view=view,
        loss_bound=settings.loss_bound,
    )


def require_protected(start: Start, unit: str) -> None:
    """Raises ValueError for a unit that no records are made of, PrivacyError where images tell."""
    if unit not in UNITS:
        raise ValueError(f"privacy_unit is '{unit}'; expected one of {', '.join(UNITS)}.")
    if start.preprocessing.image is not None and unit == "sequence":
        raise PrivacyError(
            f"The privacy unit is '{unit}' and the model reads images of pages: "
            "what one window says is seen in the image beside all others of its page, so that "
            "it would not be protected. Choose the unit 'document', or train without images."
        )


def prepare(start: Start, settings: PrivateSettings, *, device: torch.device) -> None:
    """Freezes what is not to be trained, scales and moves the start's model; reads no document.

    Dropout is set afterwards, as whatever is measured on public documents leaves it off.
    """
    model = start.model
    if settings.read_layers > 1:
        layout.read_more(model, settings.read_layers)
    model.eval()  # the probe in freeze must not draw dropout masks
    layout.freeze(model, trained=Trained.of(settings.trained), image=start.preprocessing.image)
    if settings.scaling == "public":
        most = settings.directions or whitening.DIRECTIONS * (2 if model.read_layers else 1)
        whitening.adapt(model.inner, public_inputs.of_invented(start), most)
    model.to(device)


def trained_part(
    start: Start, settings: PrivateSettings, *, device: torch.device
) -> tuple[nn.Module, ExampleLosses[Example]]:
    """Returns the model that is trained, and its losses: of a prepared start.

    Where the output layer alone learns, it is trained alone, and the encoder reads a window once.
    """
    if _kept_states(settings):
        frozen = FrozenEncoder(start.model, start.encoder, device=device)
        return frozen.model, frozen.losses_of
    return start.model, partial(losses_of, start.model, start.encoder, device=device)


def _kept_states(settings: PrivateSettings) -> bool:
    return Trained.of(settings.trained).kind == "output" and not settings.dropout


def how_to_sum(start: Start, settings: PrivateSettings) -> dict[str, Any]:
    """Returns how a start's clipped sums are computed, and the invented windows of the self-test.

    A `PrivateSum` takes it, and whatever is made of one.
    """
    most = start.preprocessing.max_tokens
    return {
        "backend": settings.backend,
        "clipping": settings.clipping,
        "max_examples": max(1, min(MAX_EXAMPLES, MAX_TOKENS // _example_tokens(start))),
        # A layer that reads one state after the other does not see what fills others up.
        "length": None if _kept_states(settings) else partial(length_of, most=most),
        "trial_records": invented_records(start),
        "tolerance": BF16_TOLERANCE,
    }


def invented_records(start: Start) -> list[tuple[Example, ...]]:
    """Returns records of invented windows, on which checks read no document."""
    return trial_records(
        vocabulary=len(start.model.word_embeddings),
        tags=len(start.labels.tags),
        image=start.preprocessing.image,
    )


def unreached(start: Start) -> list[str]:
    """Returns the names of parameters that no window reaches, whatever is to be trained.

    An invented window shows it, so that a claim may name them without telling of a document.
    """
    model = start.model.eval()  # the probe must not draw dropout masks
    return layout.unreached(model, image=start.preprocessing.image)


def _optimizer(start: Start, settings: PrivateSettings, plan: PrivacyPlan) -> torch.optim.Optimizer:
    public = public_moments.of_invented(start) if settings.optimizer == "adam-public" else None
    return optimizer_of(start.model, settings, plan, public=public)


def optimizer_of(
    model: torch.nn.Module,
    settings: PrivateSettings,
    plan: PrivacyPlan,
    *,
    public: Any = None,  # second moments that were measured on public documents
) -> torch.optim.Optimizer:
    """Returns what steps by noised gradients, so that its moments spend nothing further."""
    parameters, rate = ownership.trainable(model).values(), settings.learning_rate
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=settings.momentum)
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate)
    return NoisyAdam(parameters, lr=rate, deviation=plan.noise_deviation, public=public)


def _example_tokens(start: Start) -> int:
    """Returns the most tokens of one example, the patches of its page's image included."""
    tokens = start.preprocessing.max_tokens
    image = start.preprocessing.image
    return tokens if image is None else tokens + layout.num_patches(start.model, image)


def set_dropout(model: torch.nn.Module, probability: float) -> None:
    """Puts a model into training mode, in which it drops out with a probability."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability
        if isinstance(getattr(module, "attention_dropout", None), float):
            # LayoutLM's, which no layer of it holds.
            module.attention_dropout = probability  # type: ignore[assignment]
        if isinstance(getattr(module, "dropout", None), float):  # T5's attention
            module.dropout = probability  # type: ignore[assignment]
