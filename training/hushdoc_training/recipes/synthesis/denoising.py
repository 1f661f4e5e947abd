"""Private training of a denoiser: losses that draw time, noise and dropped class, and the engine.

Differentially Private Diffusion Models (Dockhorn et al. 2023, arXiv 2210.09929): every page is
repeated `multiplicity` times, each time with a time and a noise of its own, and the gradient of the
mean is clipped once, so that the repetitions cost nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from hushdoc_training.models import diffusion_schedule
from hushdoc_training.models.denoiser import Denoiser
from hushdoc_training.models.diffusion_schedule import TIMES
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.trial import EXAMPLES_OF_EACH, GIVEN_RECORDS
from hushdoc_training.private_view import PrivateView

ALL_TIMES = range(TIMES)
DROPPED = 0.1
"""Probability of an example to be read as one of no class (Ho and Salimans 2022)."""

MAX_EXAMPLES = 64
"""Most draws in one physical batch: bounds memory and time, changes nothing else."""

MOST_DENOISERS = GIVEN_RECORDS * EXAMPLES_OF_EACH
"""Most classes with weights of their own: the self-test has an example of each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PageExample:
    """One page for a diffusion model.

    Attributes:
        latent: Of its image, shape [latent_channels, latent_size, latent_size].
        layout: Of its mask, of the same shape; None where none is read.
        label: The number of its class; 0 where none is read.
    """

    latent: torch.Tensor
    layout: torch.Tensor | None
    label: int


def losses_of(
    denoiser: Denoiser,
    examples: Sequence[PageExample],
    *,
    times: range = ALL_TIMES,
    dropped: float = DROPPED,
) -> torch.Tensor:
    """Returns the loss of each example, shape [N], each with draws of its own.

    They follow from a seed for each, so that nobody's company changes them.
    """
    seeds = torch.randint(0, 2**62, (len(examples),)).tolist()
    return _losses(denoiser, examples, seeds, times=times, dropped=dropped)


def calm_losses_of(
    denoiser: Denoiser, examples: Sequence[PageExample], *, times: range = ALL_TIMES
) -> torch.Tensor:
    """Returns the same losses with draws that follow from each example alone, for the self-test."""
    seeds = [zlib.crc32(one.latent.numpy().tobytes(), one.label) for one in examples]
    return _losses(denoiser, examples, seeds, times=times, dropped=0.0)


def _losses(
    denoiser: Denoiser,
    examples: Sequence[PageExample],
    seeds: Sequence[int],
    *,
    times: range,
    dropped: float,
) -> torch.Tensor:
    latents, layouts, labels = batch_of(denoiser, examples)
    drawn = [torch.Generator().manual_seed(seed) for seed in seeds]
    moments = [torch.randint(times.start, times.stop, (1,), generator=own) for own in drawn]
    noise = torch.stack([torch.randn(latents.shape[1:], generator=own) for own in drawn])
    if labels is not None and denoiser.knows_none:
        kept = torch.cat([torch.rand(1, generator=own) >= dropped for own in drawn])
        labels = labels.where(kept, denoiser.classes)
    return diffusion_schedule.losses(
        denoiser, latents, layouts, labels, times=torch.cat(moments), noise=noise
    )


def batch_of(
    denoiser: Denoiser, examples: Sequence[PageExample]
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Returns latents, layouts and labels of examples, where the denoiser reads them."""
    latents = torch.stack([example.latent for example in examples])
    labels = torch.tensor([example.label for example in examples])
    layouts = [example.layout for example in examples if example.layout is not None]
    return (
        latents,
        torch.stack(layouts) if denoiser.preset.layout else None,
        labels if denoiser.classes else None,
    )


def trial_records(denoiser: Denoiser) -> list[list[PageExample]]:
    """Returns records of invented numbers, on which the self-test reads no document.

    Where classes have weights of their own, each class is in them.
    """
    preset, labels = denoiser.preset, denoiser.classes + denoiser.knows_none
    generator = torch.Generator().manual_seed(0)
    shape = (preset.latent_channels, preset.latent_size, preset.latent_size)
    count = 3 if denoiser.knows_none else max(3, (labels + 1) // 2)

    def example(label: int) -> PageExample:
        latent, layout = torch.randn(2, *shape, generator=generator)
        return PageExample(
            latent=latent,
            layout=layout.sign() if preset.layout else None,
            label=label % labels if denoiser.classes else 0,
        )

    return [[example(2 * number), example(2 * number + 1)] for number in range(count)]


def private_training(
    denoiser: Denoiser,
    records: Records[PageExample],
    plan: PrivacyPlan,
    optimizer: torch.optim.Optimizer,
    *,
    multiplicity: int,
    charge: Callable[[int], None] | None = None,
    view: PrivateView | None = None,
    backend: str = "book-keeping",
    times: range = ALL_TIMES,  # that are learned
) -> PrivateTraining[PageExample]:
    """Returns private training of a denoiser, in the state that its parameters are frozen in.

    Raises:
        PrivacyError: The guarantee would not hold.
    """
    return PrivateTraining(
        plan,
        denoiser,
        optimizer,
        records=records,
        losses=partial(losses_of, denoiser, times=times),
        trial_losses=partial(calm_losses_of, denoiser, times=times),
        trial_records=trial_records(denoiser),
        multiplicity=multiplicity,
        max_examples=MAX_EXAMPLES,
        backend=backend,
        charge=charge,
        view=view,
    )
