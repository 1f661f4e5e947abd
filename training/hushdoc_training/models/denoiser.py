"""The denoiser of latents: diffusers' UNet2DModel from frozen presets, with layout and class."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from diffusers.models.unets.unet_2d import UNet2DModel

TIME = "time_emb"
"""Part of the names of what embeds the time: frozen while a denoiser is trained privately."""


@dataclass(frozen=True, kw_only=True)
class DenoiserPreset:
    """Sizes of a denoiser.

    Attributes:
        latent_size: Numbers along a latent's side.
        latent_channels: Channels of a latent, and of a layout.
        channels: Of each level, each half as wide as the one before.
        layers: Residual blocks of a level.
        attention: The level that has attention, besides the innermost block.
        groups: Groups of a norm, at most a quarter of the channels: with one channel a group a
            norm takes away what time and class add.
        layout: Whether it reads a layout beside a latent.
    """

    latent_size: int
    latent_channels: int
    channels: tuple[int, ...]
    layers: int
    attention: int
    groups: int
    layout: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError for norms of too many groups."""
        if 4 * self.groups > min(self.channels):
            raise ValueError(
                f"groups is {self.groups}, and the fewest channels are {min(self.channels)}; "
                f"expected at most {min(self.channels) // 4}, a quarter of them."
            )


UNET_F4 = DenoiserPreset(
    latent_size=64,
    latent_channels=3,
    channels=(128, 256, 256, 256),
    layers=2,
    attention=2,
    groups=32,
)
"""That of DP-DocLDM for latents of 3 x 64 x 64: 35,749,763 parameters without classes."""

UNET_F8 = DenoiserPreset(
    latent_size=32,
    latent_channels=4,
    channels=(128, 256, 256, 256),
    layers=2,
    attention=1,
    groups=32,
)
"""That of DP-DocLDM for latents of 4 x 32 x 32: 35,753,220 parameters without classes."""

UNET_SMALL = DenoiserPreset(
    latent_size=16,
    latent_channels=3,
    channels=(32, 64, 64),
    layers=1,
    attention=1,
    groups=8,
)
"""For processors: 1,114,819 parameters without classes."""

UNET_LIGHT = replace(UNET_SMALL, channels=(24, 48, 48), groups=6)
"""For a few minutes of one core, with the latents of `UNET_SMALL`."""

UNET_TINY = DenoiserPreset(
    latent_size=8,
    latent_channels=3,
    channels=(16, 16),
    layers=1,
    attention=1,
    groups=4,
)
"""For trials and tests."""


class Denoiser(nn.Module):
    """Finds the noise in a latent, of a time, and where it has them of a layout and a class.

    Attributes:
        preset: Its sizes.
        classes: How many classes it knows; 0 where it reads none. One more label, `classes`, is of
            no class.
        inner: diffusers' UNet2DModel.
        knows_none: Whether it reads the label of no class.
    """

    knows_none = True

    def __init__(self, preset: DenoiserPreset, *, classes: int) -> None:
        """Builds it with random weights; on the meta device without any."""
        from diffusers.models.unets.unet_2d import UNet2DModel

        super().__init__()
        levels = len(preset.channels)
        down = ["DownBlock2D"] * levels
        down[preset.attention] = "AttnDownBlock2D"
        up = [name.replace("Down", "Up") for name in reversed(down)]
        self.preset, self.classes = preset, classes
        self.inner: UNet2DModel = UNet2DModel(
            sample_size=preset.latent_size,
            in_channels=preset.latent_channels * (2 if preset.layout else 1),
            out_channels=preset.latent_channels,
            down_block_types=tuple(down),
            up_block_types=tuple(up),
            block_out_channels=preset.channels,
            layers_per_block=preset.layers,
            attention_head_dim=max(preset.channels),
            norm_num_groups=preset.groups,
            num_class_embeds=classes + 1 if classes else None,
        )

    def forward(
        self,
        noisy: torch.Tensor,
        times: torch.Tensor,
        layouts: torch.Tensor | None,
        labels: torch.Tensor | None,
    ) -> torch.Tensor:
        """Returns the noise in latents, shape [N, latent_channels, latent_size, latent_size].

        Args:
            noisy: Latents with noise, of that shape.
            times: Of each, from 0 (little noise), shape [N].
            layouts: Latents of layouts, of the shape of latents; they come before them.
            labels: The class of each, shape [N]; `classes` for none.
        """
        read = noisy if layouts is None else torch.cat([layouts, noisy], dim=1)
        return torch.as_tensor(self.inner(read, times, class_labels=labels).sample)

    def freeze_time(self) -> None:
        """Freezes what embeds the time, as DP-DocLDM does in private training."""
        for name, value in self.named_parameters():
            if TIME in name:
                value.requires_grad_(False)


class ClassDenoisers(Denoiser):
    """A denoiser for each class, all of one start; a latent is read by that of its class alone.

    So a page has a gradient in the weights of its class alone, and nothing is known of no class.

    Attributes:
        each: The UNet2DModel of every class.
    """

    knows_none = False

    def __init__(self, denoiser: Denoiser, *, classes: int) -> None:
        """Begins with copies of a denoiser, which reads no classes."""
        nn.Module.__init__(self)
        self.preset, self.classes = denoiser.preset, classes
        self.each = nn.ModuleList(deepcopy(denoiser.inner) for _ in range(classes))

    def forward(
        self,
        noisy: torch.Tensor,
        times: torch.Tensor,
        layouts: torch.Tensor | None,
        labels: torch.Tensor | None,
    ) -> torch.Tensor:
        """Returns the noise in latents, as `Denoiser` does; each label is of a class."""
        assert labels is not None
        read = noisy if layouts is None else torch.cat([layouts, noisy], dim=1)
        found = torch.zeros_like(noisy)
        for label in labels.unique().tolist():
            own = labels == label
            found[own] = self.each[label](read[own], times[own]).sample
        return found


class LearnedLayouts(Denoiser):
    """A frozen denoiser that reads, in the place of a page's layout, a learned one of its class.

    A learned layout is soft and has half the side of a latent, so that few numbers get noise.

    Attributes:
        rows: The layouts of all classes and of no class, each latent_channels * side * side.
    """

    def __init__(self, denoiser: Denoiser, *, classes: int, first: torch.Tensor) -> None:
        """Begins with one layout for all classes.

        Args:
            denoiser: Reads layouts and no classes; it is frozen.
            classes: How many classes there are.
            first: The latent of a layout, [latent_channels, latent_size, latent_size].
        """
        nn.Module.__init__(self)
        self.preset, self.classes = replace(denoiser.preset, layout=False), classes
        self.inner = denoiser.inner.requires_grad_(False)
        coarse = nn.functional.avg_pool2d(first, 2).flatten()
        self.rows = nn.Embedding.from_pretrained(coarse.repeat(classes + 1, 1), freeze=False)

    def forward(
        self,
        noisy: torch.Tensor,
        times: torch.Tensor,
        layouts: torch.Tensor | None,
        labels: torch.Tensor | None,
    ) -> torch.Tensor:
        """Returns the noise in latents, as `Denoiser` does; there are labels and no layouts."""
        channels, side = noisy.shape[1], noisy.shape[2] // 2
        coarse = self.rows(labels).view(-1, channels, side, side)
        read = nn.functional.interpolate(coarse, scale_factor=2.0, mode="bilinear")
        return torch.as_tensor(self.inner(torch.cat([read, noisy], dim=1), times).sample)
