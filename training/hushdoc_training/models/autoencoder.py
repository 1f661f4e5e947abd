"""The autoencoder of page images: diffusers' AutoencoderKL from frozen presets, and its latents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

KL_WEIGHT = 1e-6
"""Of the divergence from a standard normal in the loss (Rombach et al. 2022, appendix G)."""


@dataclass(frozen=True, kw_only=True)
class AutoencoderPreset:
    """Sizes of an autoencoder.

    Attributes:
        image_size: Pixels of a page's side; pages are made square.
        image_channels: 1 for shades of gray.
        channels: Of each level, each half as wide as the one before.
        layers: Residual blocks of a level.
        latent_channels: Channels of a latent.
        groups: Groups of a norm, at most a quarter of the channels.
    """

    image_size: int
    image_channels: int
    channels: tuple[int, ...]
    layers: int
    latent_channels: int
    groups: int

    @property
    def latent_size(self) -> int:
        """Numbers along a latent's side."""
        return self.image_size // 2 ** (len(self.channels) - 1)


KL_F4 = AutoencoderPreset(
    image_size=256,
    image_channels=3,
    channels=(128, 256, 512),
    layers=2,
    latent_channels=3,
    groups=32,
)
"""That of DP-DocLDM at a factor of 4 (CompVis' kl-f4): 55,312,063 parameters."""

KL_F8 = AutoencoderPreset(
    image_size=256,
    image_channels=3,
    channels=(128, 256, 512, 512),
    layers=2,
    latent_channels=4,
    groups=32,
)
"""That of DP-DocLDM at a factor of 8 (Stable Diffusion 1.4): 83,653,863 parameters."""

KL_SMALL = AutoencoderPreset(
    image_size=64,
    image_channels=1,
    channels=(32, 64, 96),
    layers=1,
    latent_channels=3,
    groups=8,
)
"""For processors: 1,691,485 parameters, latents of 3 x 16 x 16."""

KL_LIGHT = replace(KL_SMALL, channels=(16, 32, 32), groups=4)
"""For a few minutes of one core: a fifth of the work of `KL_SMALL`, latents of the same size."""

KL_TINY = AutoencoderPreset(
    image_size=32,
    image_channels=1,
    channels=(8, 16, 16),
    layers=1,
    latent_channels=3,
    groups=2,
)
"""For trials and tests: latents of 3 x 8 x 8."""


class PageAutoencoder(nn.Module):
    """Turns images of pages into latents and back.

    Images are [N, channels, size, size] from -1 (black) to 1 (white), latents [N, latent_channels,
    latent_size, latent_size].

    Attributes:
        preset: Its sizes.
        inner: diffusers' AutoencoderKL.
        scale: What latents are multiplied by, so that those of public pages have deviation 1.
    """

    scale: torch.Tensor

    def __init__(self, preset: AutoencoderPreset) -> None:
        """Builds it with random weights; on the meta device without any."""
        from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

        super().__init__()
        levels = len(preset.channels)
        self.preset = preset
        self.inner: AutoencoderKL = AutoencoderKL(
            in_channels=preset.image_channels,
            out_channels=preset.image_channels,
            down_block_types=("DownEncoderBlock2D",) * levels,
            up_block_types=("UpDecoderBlock2D",) * levels,
            block_out_channels=preset.channels,
            layers_per_block=preset.layers,
            latent_channels=preset.latent_channels,
            norm_num_groups=preset.groups,
            sample_size=preset.image_size,
        )
        with torch.no_grad():  # narrow posteriors at first: noise would drown a new latent
            self.inner.quant_conv.bias[preset.latent_channels :] = -6.0
        self.register_buffer("scale", torch.ones(()))

    @torch.no_grad()
    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """Returns scaled latents, the means of the posterior: nothing is drawn."""
        found = self.inner.encode(images).latent_dist.mode() * self.scale
        return torch.as_tensor(found)

    @torch.no_grad()
    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Returns images of scaled latents, from -1 to 1."""
        return torch.as_tensor(self.inner.decode(latents / self.scale).sample.clamp(-1, 1))

    def loss(self, images: torch.Tensor) -> torch.Tensor:
        """Returns the mean loss of public images: of pixels, of edges, and of the divergence.

        Rombach et al. 2022 add a perceptual and an adversarial term, whose networks are trained on
        photographs; the differences between neighbouring pixels stand for them here.
        """
        posterior = self.inner.encode(images).latent_dist
        made = self.inner.decode(posterior.sample()).sample
        errors = (made - images).square().mean()  # absolute ones would leave thin text out at first
        for axis in (2, 3):
            errors = errors + (made.diff(dim=axis) - images.diff(dim=axis)).square().mean()
        return torch.as_tensor(errors + KL_WEIGHT * posterior.kl().mean())
