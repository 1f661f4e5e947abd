"""Classifiers of page images: published architectures from frozen presets, and small ones.

An architecture's name and its number of classes rebuild it, so a checkpoint holds no configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hushdoc.errors import CheckpointError
from hushdoc.runtime.images import ImagePreprocessing

WEIGHTS = "model.safetensors"

_IMAGENET: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_PAGES: dict[str, Any] = {"mean": (0.9,) * 3, "std": (0.25,) * 3}
"""Pages are paper, mostly; constants that no data set was measured for."""

_MOST_GROUPS = 32


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One kind of classifier.

    Attributes:
        about: What it is, for people.
        preprocessing: How images become its inputs.
        make: Returns it with random weights, for so many classes. Its forward(pixel_values [N, 3,
            height, width]) answers with `logits` [N, classes], of its last part `classifier`.
    """

    about: str
    preprocessing: ImagePreprocessing
    make: Callable[[int], nn.Module]


def build(architecture: str, num_labels: int, *, seed: int = 0) -> nn.Module:
    """Returns a classifier with random weights that the seed decides.

    Raises:
        CheckpointError: Nobody knows the architecture.
    """
    made = known(architecture)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return made.make(num_labels)


def known(architecture: str) -> Architecture:
    """Returns the architecture of a name; CheckpointError for any other."""
    found = ARCHITECTURES.get(architecture)
    if found is None:
        raise CheckpointError(
            f"The architecture is '{architecture}'; expected one of {', '.join(ARCHITECTURES)}. "
            "Train again, or use the version that wrote it."
        )
    return found


def save(model: nn.Module, folder: Path) -> None:
    """Writes the weights of a classifier."""
    from safetensors.torch import save_model

    save_model(model, str(folder / WEIGHTS))


def load(folder: Path, architecture: str, num_labels: int) -> nn.Module:
    """Returns the classifier whose weights a folder holds.

    Raises:
        CheckpointError: They are missing, damaged, or those of another classifier.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    model = build(architecture, num_labels)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"The weights '{folder / WEIGHTS}' are not those of a '{architecture}' with "
            f"{num_labels} classes: {str(error)[:200]}. Train again, or restore the folder."
        ) from error
    return model


def with_new_labels(
    model: nn.Module, architecture: str, num_labels: int, *, seed: int
) -> nn.Module:
    """Returns a classifier of other classes with the weights of this one, but its last layer's."""
    made = build(architecture, num_labels, seed=seed)
    kept = {
        name: value
        for name, value in model.state_dict().items()
        if not name.startswith("classifier.")
    }
    made.load_state_dict(kept, strict=False)
    return made


def freeze(model: nn.Module, *, trained: str) -> None:
    """Leaves "all" parameters to be trained, or those of the "output" layer alone."""
    for name, value in model.named_parameters():
        value.requires_grad_(trained == "all" or name.startswith("classifier."))


def with_group_norm(model: nn.Module) -> nn.Module:
    """Returns the model with group norms in the place of batch norms, which mix records.

    A group has at least four channels: with one channel a group what is added to it cancels.
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent, _, own = name.rpartition(".")
            channels = module.num_features
            groups = min(_MOST_GROUPS, max(1, channels // 4))
            setattr(model.get_submodule(parent), own, nn.GroupNorm(groups, channels))
    return model


class LinearImages(nn.Module):
    """A linear classifier of gray pixels."""

    def __init__(self, pixels: int, num_labels: int) -> None:
        """Begins with weights of 0."""
        from transformers import PretrainedConfig

        super().__init__()
        self.config = PretrainedConfig(num_labels=num_labels)
        self.classifier = nn.Linear(pixels, num_labels)
        nn.init.zeros_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, pixel_values: torch.Tensor) -> Any:
        """Returns `logits` [N, classes] of images [N, 3, height, width]."""
        from transformers.modeling_outputs import ImageClassifierOutput

        gray = pixel_values.mean(1).flatten(1)
        return ImageClassifierOutput(logits=self.classifier(gray))


def _linear(num_labels: int) -> nn.Module:
    return LinearImages(32 * 32, num_labels)


def _small(num_labels: int) -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 64],
        depths=[1, 1, 1],
        layer_type="basic",
        num_labels=num_labels,
    )
    return with_group_norm(ResNetForImageClassification(config))


def _resnet_50(num_labels: int) -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    # Its defaults are those of ResNet-50 (He et al. 2016).
    return ResNetForImageClassification(ResNetConfig(num_labels=num_labels))


def _resnet_50_groups(num_labels: int) -> nn.Module:
    return with_group_norm(_resnet_50(num_labels))


def _convnext_b(num_labels: int) -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(
        ConvNextConfig(
            hidden_sizes=[128, 256, 512, 1024], depths=[3, 3, 27, 3], num_labels=num_labels
        )
    )


def _dit_b(num_labels: int) -> nn.Module:
    from transformers import BeitConfig, BeitForImageClassification

    return BeitForImageClassification(
        BeitConfig(use_relative_position_bias=True, num_labels=num_labels)
    )


def _side(side: int, colours: Mapping[str, Any]) -> ImagePreprocessing:
    return ImagePreprocessing(height=side, width=side, resample="bilinear", **colours)


ARCHITECTURES: Mapping[str, Architecture] = {
    "small": Architecture(
        about="a residual network of three blocks with group norms, on 64 x 64 pixels",
        preprocessing=_side(64, _PAGES),
        make=_small,
    ),
    "linear": Architecture(
        about="a linear classifier on 32 x 32 gray pixels",
        preprocessing=_side(32, _PAGES),
        make=_linear,
    ),
    "resnet-50": Architecture(
        about="ResNet-50 (He et al. 2016), whose batch norms mix records",
        preprocessing=_side(224, _IMAGENET),
        make=_resnet_50,
    ),
    "resnet-50-groups": Architecture(
        about="ResNet-50 with group norms, as private training needs it",
        preprocessing=_side(224, _IMAGENET),
        make=_resnet_50_groups,
    ),
    "convnext-b": Architecture(
        about="ConvNeXt-B (Liu et al. 2022)",
        preprocessing=_side(224, _IMAGENET),
        make=_convnext_b,
    ),
    "dit-b": Architecture(
        about="DiT-B (Li et al. 2022), which is a BEiT",
        preprocessing=_side(224, _IMAGENET),
        make=_dit_b,
    ),
}
"""All of them by name. The paper's classifiers are ResNet-50, ConvNeXt-B and DiT-B (DP-DocLDM)."""
