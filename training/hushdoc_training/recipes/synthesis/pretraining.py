"""Pretraining of diffusion: first the autoencoder, then the denoiser, on public pages alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from hushdoc.certificate.claim import PublicData
from hushdoc.errors import AnnotationError
from hushdoc.system.progress import TaskProgress
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.models.autoencoder import PageAutoencoder
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.synthesis import denoising, diffusion_start, page_squares
from hushdoc_training.recipes.synthesis.denoising import PageExample
from hushdoc_training.recipes.synthesis.diffusion_settings import PretrainingSettings
from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart
from hushdoc_training.runs import loop
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.run_folder import Run


def pretrain(
    documents: Sequence[ImageDocument],
    settings: PretrainingSettings,
    *,
    out: Path,
    public: PublicData,  # what a certificate says of the documents
    classes: tuple[str, ...],  # of the documents, in the order of their numbers
    resume: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Trains both models and writes `out/checkpoint`.

    Raises:
        AnnotationError: A document is of no known class, or its image can't be read.
        CheckpointError: There is nothing to resume.
        EmptyDocumentError: There is no document.
        OutputExistsError: The folder holds something.
    """
    page_squares.require_known(documents, classes)
    if "class" in settings.condition and len(classes) < 2:
        raise AnnotationError(
            f"The public pages have {len(classes)} class; expected two or more, or nothing tells "
            "them apart. Give pages of several classes, or a --condition without classes."
        )
    read = classes if "class" in settings.condition else ()
    same = {**asdict(settings), "classes": list(classes), "public": asdict(public)}
    run = Run.open(
        out,
        {"mode": "pretraining", **same, "documents": page_squares.digest(documents)},
        resume=resume,
    )
    codec, denoiser = diffusion_start.built(
        settings.size, condition=settings.condition, classes=read, seed=settings.seed
    )
    start = DiffusionStart(
        codec=codec,
        denoiser=denoiser,
        classes=read,
        claim=claims.public((public,), training=asdict(settings)),
        name=out.resolve().name,
    )
    with TaskProgress("public page", quiet=quiet) as progress:
        squares = page_squares.squares_of(
            documents,
            codec.preset.image_size,
            classes={name: number for number, name in enumerate(read)},
            layout=denoiser.preset.layout,
            copies=settings.copies,
            blur=settings.blur,
            seen=progress.show,
        )
    every = [square for own in squares for square in own]
    shades = [square.shades for square in every]
    both = start.both.train()
    optimizer = torch.optim.Adam(both.parameters(), lr=settings.learning_rate)
    examples: list[PageExample] = []

    def loss(number: int) -> torch.Tensor:
        chance = np.random.default_rng((settings.seed, number))
        torch.manual_seed(settings.seed * 10**9 + number)
        if number <= settings.autoencoder_steps:
            parts = [
                quarter(shades[one], chance)
                for one in chance.integers(0, len(every), settings.crops)
            ]
            return codec.loss(page_squares.channels_of(parts, codec))
        chosen = chance.integers(0, len(every), settings.batch_size)
        if number == settings.autoencoder_steps + 1:
            scale(codec, shades)
        if not examples:
            for own in page_squares.examples_of(squares, codec):
                examples.extend(own)
        return denoising.losses_of(denoiser, [examples[one] for one in chosen]).mean()

    def step(number: int) -> float:
        found = loss(number)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate_at(number, settings)
        optimizer.zero_grad(set_to_none=True)
        found.backward()
        torch.nn.utils.clip_grad_norm_(both.parameters(), 1.0)
        optimizer.step()
        return float(found.detach())

    return loop.train_without_privacy(
        run,
        steps=settings.autoencoder_steps + settings.steps,
        model=both,
        optimizer=optimizer,
        step=step,
        save=lambda folder: diffusion_start.save(folder, start),
        title="pretraining on public pages",
        quiet=quiet,
    )


def quarter(shades: page_squares.Floats, chance: np.random.Generator) -> page_squares.Floats:
    """Returns a square of half a page's side from anywhere on it, for an autoencoder's step."""
    side = len(shades) // 2
    down, right = chance.integers(0, len(shades) - side + 1, 2)
    return shades[down : down + side, right : right + side]


def rate_at(number: int, settings: PretrainingSettings) -> float:
    """Returns the share of the step size at a step: in each model's second half it goes down."""
    done, steps = number - 1, settings.autoencoder_steps
    if number > steps:
        done, steps = done - steps, settings.steps
    return min(1.0, 2 * (1 - done / steps))


def scale(codec: PageAutoencoder, shades: Sequence[page_squares.Floats]) -> None:
    """Makes the latents of public pages of deviation 1."""
    codec.scale.fill_(1.0)
    codec.scale.fill_(1 / float(page_squares.encoded(codec, shades).std()))
