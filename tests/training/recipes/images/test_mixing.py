"""Mixing: known answers, shares that agree with pixels, and its two ends."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hushdoc_training.recipes.images.mixing import cut_box, mixed


def batch(count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Images whose every pixel is their number, each of its own class."""
    images = torch.arange(count, dtype=torch.float32).view(-1, 1, 1, 1).expand(count, 3, 8, 6)
    return images.contiguous(), torch.eye(count)


def test_mixup_by_hand() -> None:
    images, targets = batch()
    made, soft = mixed(images, targets, mixup=0.8, cutmix=0.0, generator=np.random.default_rng(3))
    again = np.random.default_rng(3)
    partners = again.permutation(4)
    share = again.beta(0.8, 0.8)
    for row, other in enumerate(partners):
        assert made[row].unique().tolist() == pytest.approx([share * row + (1 - share) * other])
        assert float(soft[row, row]) == pytest.approx(share + (1 - share) * (row == other))


@pytest.mark.parametrize("seed", range(8))
def test_a_target_has_the_share_of_its_pixels(seed: int) -> None:
    images, targets = batch()
    made, soft = mixed(
        images, targets, mixup=0.0, cutmix=1.0, generator=np.random.default_rng(seed)
    )
    for row in range(4):
        pixels = made[row, 0].flatten()
        shares = [float((pixels == number).float().mean()) for number in range(4)]
        assert soft[row].tolist() == pytest.approx(shares)
    assert soft.sum(1).tolist() == pytest.approx([1.0] * 4)


def test_without_mixing_nothing_changes() -> None:
    images, targets = batch()
    made, soft = mixed(images, targets, mixup=0.0, cutmix=0.0, generator=np.random.default_rng(1))
    assert made is images
    assert soft is targets


def test_boxes_are_nothing_or_all_at_the_ends() -> None:
    generator = np.random.default_rng(2)
    top, bottom, left, right = cut_box(1.0, height=8, width=6, generator=generator)
    assert (bottom - top) * (right - left) == 0
    for _ in range(50):
        top, bottom, left, right = cut_box(0.0, height=8, width=6, generator=generator)
        assert 0 <= top < bottom <= 8
        assert 0 <= left < right <= 6
