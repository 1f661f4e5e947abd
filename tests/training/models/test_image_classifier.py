"""Classifiers of images: published sizes, norms that keep records apart, and their files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from hushdoc.errors import CheckpointError
from hushdoc_training.commands import images
from hushdoc_training.models import image_classifier
from hushdoc_training.models.image_classifier import ARCHITECTURES, build

CLASSES = 16

PUBLISHED = {
    "resnet-50": 25_557_032,  # torchvision's
    "resnet-50-groups": 25_557_032,
    "convnext-b": 88_591_464,  # torchvision's
    "dit-b": 86_530_984,  # timm's beit_base_patch16_224
}
"""Parameters with 1,000 classes."""


def count(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_architectures_have_their_size(name: str) -> None:
    with torch.device("meta"):
        assert count(build(name, 1000)) == PUBLISHED[name]


def test_the_command_knows_all_architectures() -> None:
    assert tuple(ARCHITECTURES) == images.ARCHITECTURES


def test_no_batch_norm_is_left_and_no_group_is_one_channel() -> None:
    model = build("small", CLASSES)
    norms = [module for module in model.modules() if isinstance(module, nn.GroupNorm)]
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert norms
    assert all(norm.num_channels >= 4 * norm.num_groups for norm in norms)


def test_an_answer_depends_on_its_own_image_alone() -> None:
    model = build("small", 3)  # in training mode, in which batch norms would mix
    images = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    together = model(pixel_values=images).logits
    alone = torch.cat([model(pixel_values=one[None]).logits for one in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_weights_come_back_and_others_are_refused(tmp_path: Path) -> None:
    model = build("linear", 3)
    nn.init.ones_(model.get_parameter("classifier.weight"))
    image_classifier.save(model, tmp_path)
    back = image_classifier.load(tmp_path, "linear", 3)
    assert torch.equal(back.get_parameter("classifier.weight"), torch.ones(3, 1024))
    for architecture, classes in (("linear", 4), ("small", 3), ("unheard-of", 3)):
        with pytest.raises(CheckpointError):
            image_classifier.load(tmp_path, architecture, classes)
    (tmp_path / image_classifier.WEIGHTS).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="not those of"):
        image_classifier.load(tmp_path, "linear", 3)


def test_other_classes_keep_all_but_the_last_layer() -> None:
    before = build("small", 3, seed=1)
    after = image_classifier.with_new_labels(before, "small", 5, seed=2)
    for name, value in before.named_parameters():
        same = name.startswith("classifier.")
        kept = after.get_parameter(name)
        assert same or torch.equal(kept, value)
    assert after.get_parameter("classifier.1.bias").shape == (5,)


@pytest.mark.parametrize(("trained", "names"), [("output", 2), ("all", 999)])
def test_what_is_trained(trained: str, names: int) -> None:
    model = build("small", 3)
    image_classifier.freeze(model, trained=trained)
    free = [name for name, value in model.named_parameters() if value.requires_grad]
    assert len(free) == min(names, len(list(model.parameters())))
