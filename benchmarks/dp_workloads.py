"""Models with random weights and random data, whose training steps `dp_step` compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model and the losses of one batch."""

    model: nn.Module
    losses_of: Callable[[Sequence[int]], torch.Tensor]
    rows: int

    def losses(self) -> torch.Tensor:
        """Returns the loss of every row."""
        return self.losses_of(range(self.rows))


def workload(kind: str, rows: int, size: int, *, quick: bool, device: str) -> Workload:
    """Returns a model and a batch of random data."""
    make = {"encoder": encoder, "t5": t5, "unet": unet}[kind]
    return make(rows, size, quick=quick, device=device)


def encoder(rows: int, tokens: int, *, quick: bool, device: str) -> Workload:
    """Returns BERT in MiniLM's shape, tagging tokens."""
    import torch
    from torch.nn import functional as F  # noqa: N812
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=2 if quick else 6,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=9,
    )
    model = BertForTokenClassification(config).to(device).train()
    words = torch.randint(5, config.vocab_size, (rows, tokens), device=device)
    labels = torch.randint(0, 9, (rows, tokens), device=device)
    # Given for Opacus' sake: it can't follow the model's own.
    positions = torch.arange(tokens, device=device).repeat(rows, 1)
    types = torch.zeros_like(words)

    def losses_of(chosen: Sequence[int]) -> torch.Tensor:
        some = list(chosen)
        found = model(
            input_ids=words[some], position_ids=positions[some], token_type_ids=types[some]
        ).logits
        by_token = F.cross_entropy(found.flatten(0, 1), labels[some].flatten(), reduction="none")
        return by_token.view(len(some), tokens).mean(1)

    return Workload(model=model, losses_of=losses_of, rows=rows)


def t5(rows: int, tokens: int, *, quick: bool, device: str) -> Workload:
    """Returns a T5 with tied embeddings, answering."""
    import torch
    from torch.nn import functional as F  # noqa: N812
    from transformers import T5Config, T5ForConditionalGeneration

    layers = 1 if quick else 3
    config = T5Config(
        vocab_size=8000,
        d_model=256,
        d_kv=32,
        d_ff=1024,
        num_layers=layers,
        num_heads=8,
        decoder_start_token_id=0,
        use_cache=False,
    )
    model = T5ForConditionalGeneration(config).to(device).train()
    words = torch.randint(5, config.vocab_size, (rows, 2 * tokens), device=device)
    answers = torch.randint(5, config.vocab_size, (rows, tokens // 2), device=device)

    def losses_of(chosen: Sequence[int]) -> torch.Tensor:
        questions, replies = words[list(chosen)], answers[list(chosen)]
        found = model(input_ids=questions, labels=replies).logits
        by_token = F.cross_entropy(found.flatten(0, 1), replies.flatten(), reduction="none")
        return by_token.view(replies.shape).mean(1)

    return Workload(model=model, losses_of=losses_of, rows=rows)


def unet(rows: int, size: int, *, quick: bool, device: str) -> Workload:
    """Returns a diffusion model with attention, removing noise."""
    import torch
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=size,
        in_channels=4,
        out_channels=4,
        layers_per_block=1 if quick else 2,
        block_out_channels=(64, 128),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=32,
    )
    model = model.to(device).train()
    noisy, noise = torch.randn(2, rows, 4, size, size, device=device)
    steps = torch.randint(0, 1000, (rows,), device=device)

    def losses_of(chosen: Sequence[int]) -> torch.Tensor:
        some = list(chosen)
        return (model(noisy[some], steps[some]).sample - noise[some]).pow(2).mean((1, 2, 3))

    return Workload(model=model, losses_of=losses_of, rows=rows)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Returns the optimizer of every arm."""
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-4)
