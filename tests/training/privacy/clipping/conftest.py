"""Tiny versions of every architecture that the engine trains, from configurations alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F  # noqa: N812

EXAMPLES, TOKENS, VOCABULARY, CLASSES = 5, 9, 50, 4
_ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "num_labels": CLASSES,
}


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """A model and the losses of chosen examples of its sample."""

    model: nn.Module
    losses_of: Callable[[Sequence[int]], torch.Tensor]

    def losses(self) -> torch.Tensor:
        return self.losses_of(range(EXAMPLES))


def _sample() -> dict[str, torch.Tensor]:
    mask = torch.ones(EXAMPLES, TOKENS, dtype=torch.long)
    mask[1, 6:], mask[3, 4:] = 0, 0
    corner = torch.randint(0, 500, (EXAMPLES, TOKENS, 2))
    return {
        # From 2: neither 0 nor 1, the padding of BERT and RoBERTa.
        "input_ids": torch.randint(2, VOCABULARY, (EXAMPLES, TOKENS)),
        "attention_mask": mask,
        "bbox": torch.cat([corner, corner + torch.randint(0, 400, (EXAMPLES, TOKENS, 2))], dim=-1),
    }


def _on_tokens(model: nn.Module, sample: dict[str, torch.Tensor], labels: torch.Tensor) -> Tiny:
    def losses_of(examples: Sequence[int]) -> torch.Tensor:
        chosen = {name: tensor[list(examples)] for name, tensor in sample.items()}
        logits = model(**chosen).logits
        target = labels[list(examples)]
        by_token = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        return by_token.view(target.shape).mean(1)

    return Tiny(model=model.train(), losses_of=losses_of)


def _on_images(model: nn.Module, size: int) -> Tiny:
    images, labels = torch.randn(EXAMPLES, 3, size, size), torch.randint(0, CLASSES, (EXAMPLES,))

    def losses_of(examples: Sequence[int]) -> torch.Tensor:
        logits = model(pixel_values=images[list(examples)]).logits
        return F.cross_entropy(logits, labels[list(examples)], reduction="none")

    return Tiny(model=model.train(), losses_of=losses_of)


def encoder(architecture: str, *, boxes: bool = True, image: bool = False, **more: Any) -> Tiny:
    """Builds a tagger of tokens of the architecture that transformers names so."""
    config = getattr(transformers, f"{architecture}Config")(**_ENCODER, **more)
    sample = _sample()
    if not boxes:
        del sample["bbox"]
    if image:
        sample["pixel_values"] = torch.randn(EXAMPLES, 3, 16, 16)
    model = getattr(transformers, f"{architecture}ForTokenClassification")(config)
    labels = torch.randint(0, CLASSES, (EXAMPLES, TOKENS))
    return _on_tokens(model, sample, labels)


bert = partial(encoder, "Bert", boxes=False)


layoutlmv3 = partial(
    encoder,
    "LayoutLMv3",
    max_2d_position_embeddings=1001,
    coordinate_size=4,
    shape_size=4,
    input_size=16,
    patch_size=8,
    rel_pos_bins=4,
    max_rel_pos=8,
    rel_2d_pos_bins=4,
    max_rel_2d_pos=16,
)


def t5(*, tokens: int = TOKENS, checkpoints: bool = False) -> Tiny:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        use_cache=False,
    )
    model = transformers.T5ForConditionalGeneration(config)
    if checkpoints:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    sample = {name: tensor[:, :tokens] for name, tensor in _sample().items() if name != "bbox"}
    sample["labels"] = torch.randint(2, VOCABULARY, (EXAMPLES, tokens))
    return _on_tokens(model, sample, sample["labels"])


def beit(*, shared_bias: bool = False) -> Tiny:
    config = transformers.BeitConfig(
        image_size=16,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=CLASSES,
        use_relative_position_bias=not shared_bias,
        use_shared_relative_position_bias=shared_bias,
        use_absolute_position_embeddings=True,
        use_mean_pooling=not shared_bias,
        layer_scale_init_value=0.1,
    )
    return _on_images(transformers.BeitForImageClassification(config), 16)


def convnext() -> Tiny:
    config = transformers.ConvNextConfig(
        num_stages=2,
        hidden_sizes=[8, 16],
        depths=[1, 2],
        num_labels=CLASSES,
        layer_scale_init_value=0.1,
    )
    return _on_images(transformers.ConvNextForImageClassification(config), 32)


def resnet() -> Tiny:
    config = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 2],
        layer_type="basic",
        num_labels=CLASSES,
    )
    model = transformers.ResNetForImageClassification(config)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(parent, name, nn.GroupNorm(4, child.num_features))
    return _on_images(model, 32)


def unet() -> Tiny:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=8,
        in_channels=2,
        out_channels=2,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
        attention_head_dim=8,
        num_class_embeds=CLASSES,
    )
    noisy, noise = torch.randn(2, EXAMPLES, 2, 8, 8)
    steps, classes = torch.randint(0, 1000, (EXAMPLES,)), torch.randint(0, CLASSES, (EXAMPLES,))

    def losses_of(examples: Sequence[int]) -> torch.Tensor:
        chosen = list(examples)
        found = model(noisy[chosen], steps[chosen], class_labels=classes[chosen]).sample
        return (found - noise[chosen]).pow(2).mean((1, 2, 3))

    return Tiny(model=model.train(), losses_of=losses_of)


def lora() -> Tiny:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=["query", "value"], modules_to_save=["classifier"])
    tiny = bert()
    model = get_peft_model(tiny.model, config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.1)  # zero by default, which would hide lora_A
    return Tiny(model=model.train(), losses_of=tiny.losses_of)


TINY: dict[str, Callable[[], Tiny]] = {
    "bert": bert,
    "roberta": partial(encoder, "Roberta", boxes=False),
    "layoutlm": partial(encoder, "LayoutLM"),
    "lilt": partial(encoder, "Lilt", channel_shrink_ratio=2),
    "layoutlmv3": layoutlmv3,
    "layoutlmv3-image": partial(layoutlmv3, image=True),
    "t5": t5,
    # As many tokens as examples: an index without a batch axis looks like one with.
    "t5-square": partial(t5, tokens=EXAMPLES),
    "t5-checkpoints": partial(t5, checkpoints=True),
    "beit": beit,
    "beit-shared-bias": partial(beit, shared_bias=True),
    "convnext": convnext,
    "resnet-groupnorm": resnet,
    "unet": unet,
    "lora": lora,
}


@pytest.fixture(params=TINY)
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def tiny() -> Callable[[str], Tiny]:
    """Builds one of the architectures, always with the same weights and sample."""

    def build(name: str) -> Tiny:
        torch.manual_seed(0)
        return TINY[name]()

    return build
