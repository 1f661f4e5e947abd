"""Mixing of images and their targets: mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019).

A mixed image is made of two records, so that a gradient of it belongs to both: private training
refuses it.
"""

from __future__ import annotations

import numpy as np
import torch


def mixed(
    images: torch.Tensor,
    targets: torch.Tensor,
    *,
    mixup: float,
    cutmix: float,
    generator: np.random.Generator,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images [N, 3, H, W] and targets [N, classes] of a batch, mixed by one of the two.

    Args:
        images: Of a batch.
        targets: Its classes, each row a distribution.
        mixup: Both parameters of mixup's Beta distribution; 0 leaves it out.
        cutmix: Those of CutMix; where neither is left out, a coin decides.
        generator: Of the coin, the partners, the shares and the boxes.
    """
    cuts = cutmix > 0 and (mixup <= 0 or generator.random() < 0.5)
    if mixup <= 0 and not cuts:
        return images, targets
    partners = torch.from_numpy(generator.permutation(len(images)))
    alpha = cutmix if cuts else mixup
    share = float(generator.beta(alpha, alpha))
    if cuts:
        top, bottom, left, right = cut_box(
            share, height=images.shape[2], width=images.shape[3], generator=generator
        )
        made = images.clone()
        made[:, :, top:bottom, left:right] = images[partners, :, top:bottom, left:right]
        share = 1 - (bottom - top) * (right - left) / (images.shape[2] * images.shape[3])
    else:
        made = share * images + (1 - share) * images[partners]
    return made, share * targets + (1 - share) * targets[partners]


def cut_box(
    share: float, *, height: int, width: int, generator: np.random.Generator
) -> tuple[int, int, int, int]:
    """Returns top, bottom, left and right of a box with 1 - share of the image, cut at its edges.

    Its centre is uniform (Yun et al. 2019, equation 2).
    """
    tall, wide = (int(side * np.sqrt(1 - share)) for side in (height, width))
    middle, across = int(generator.integers(height)), int(generator.integers(width))
    return (
        max(0, middle - tall // 2),
        min(height, middle + tall - tall // 2),
        max(0, across - wide // 2),
        min(width, across + wide - wide // 2),
    )
