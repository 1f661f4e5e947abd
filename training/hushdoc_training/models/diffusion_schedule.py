"""Noise schedule, the loss of one time, and sampling: DDPM and DDIM by diffusers' schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from hushdoc import arguments
from hushdoc_training.models.denoiser import Denoiser

if TYPE_CHECKING:
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

TIMES = 1000
SAMPLERS = ("ddpm", "ddim")

_SCHEDULE: dict[str, Any] = {
    "num_train_timesteps": TIMES,
    "beta_start": 1e-4,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "prediction_type": "epsilon",
    "clip_sample": False,
    "timestep_spacing": "leading",
    "steps_offset": 0,
}
"""Ho et al. 2020 (arXiv 2006.11239), section 4."""


def kept_signal() -> torch.Tensor:
    """Returns the share of a latent's variance that is left at each time, shape [TIMES]."""
    betas = torch.linspace(_SCHEDULE["beta_start"], _SCHEDULE["beta_end"], TIMES)
    return torch.cumprod(1 - betas, 0)


def noised(latents: torch.Tensor, noise: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """Returns latents with the noise of their times, all [N, ...]; equation 4 there."""
    kept = kept_signal().to(latents)[times].view(-1, *[1] * (latents.dim() - 1))
    return kept.sqrt() * latents + (1 - kept).sqrt() * noise


def losses(
    denoiser: Denoiser,
    latents: torch.Tensor,
    layouts: torch.Tensor | None,
    labels: torch.Tensor | None,
    *,
    times: torch.Tensor,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Returns the squared error of each latent's noise, shape [N]; equation 14 there."""
    found = denoiser(noised(latents, noise, times), times, layouts, labels)
    return (found - noise).square().mean((1, 2, 3))


def guided(
    denoiser: Denoiser,
    noisy: torch.Tensor,
    times: torch.Tensor,
    layouts: torch.Tensor | None,
    labels: torch.Tensor | None,
    *,
    guidance: float,
) -> torch.Tensor:
    """Returns the noise as if the class counted `guidance` times (Ho and Salimans 2022).

    1 reads the class as it was trained. Layouts are read in both passes.
    """
    found = denoiser(noisy, times, layouts, labels)
    if labels is None or guidance == 1:
        return torch.as_tensor(found)
    null = denoiser(noisy, times, layouts, torch.full_like(labels, denoiser.classes))
    return torch.as_tensor(null + guidance * (found - null))


@torch.no_grad()
def sample(
    denoiser: Denoiser,
    *,
    layouts: torch.Tensor | None,
    labels: torch.Tensor | None,
    generators: Sequence[torch.Generator],  # one for each latent
    sampler: str = "ddpm",
    steps: int = 200,
    guidance: float = 1.0,
) -> torch.Tensor:
    """Returns new latents, shape [N, latent_channels, latent_size, latent_size].

    Args:
        denoiser: Finds the noise, here in evaluation mode.
        layouts: Of each latent, where it reads layouts.
        labels: Of each, where it reads classes.
        generators: Draw the noise of each latent: nobody else's company changes it.
        sampler: One of SAMPLERS: Ho et al. 2020, algorithm 2, with the smaller variance; or Song et
            al. 2021 (arXiv 2010.02502) without noise.
        steps: How many times are visited, evenly from the largest.
        guidance: See `guided`.
    """
    arguments.choice(sampler, SAMPLERS, what="sampler")
    if not 1 <= steps <= TIMES:
        raise ValueError(f"steps is {steps}; expected 1 to {TIMES}.")
    schedule = _scheduler(sampler)
    schedule.set_timesteps(steps)
    size = denoiser.preset.latent_size
    shape = (denoiser.preset.latent_channels, size, size)
    latents = torch.stack([torch.randn(shape, generator=one) for one in generators])
    for time in schedule.timesteps:
        times = torch.full((len(latents),), int(time))
        noise = guided(denoiser, latents, times, layouts, labels, guidance=guidance)
        latents = schedule.step(noise, int(time), latents, generator=list(generators)).prev_sample
    return latents


def _scheduler(sampler: str) -> DDPMScheduler | DDIMScheduler:
    if sampler == "ddim":
        from diffusers.schedulers.scheduling_ddim import DDIMScheduler

        return DDIMScheduler(**_SCHEDULE, set_alpha_to_one=True)
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

    return DDPMScheduler(**_SCHEDULE, variance_type="fixed_small")
