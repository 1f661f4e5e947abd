"""VT5 (Tito et al. 2024, Privacy-Aware Document Visual Question Answering, section 5.1).

T5 reads a question and the words of a page with their boxes, then the page's image as the tokens of
a frozen DiT (Li et al. 2022), and writes the answer. Visual tokens follow the last word of each row
and padding comes last: the published code pads the words first, so that T5's relative positions,
and with them a row's loss, depend on the longest row of the batch. See docs/papers.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import nn
from torch.nn import functional

from hushdoc.errors import CheckpointError, InputError
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_training.models import low_rank
from hushdoc_training.models.layout import quiet_transformers
from hushdoc_training.models.trained import Trained

IGNORED = -100
"""The target of what stands behind an answer's end."""

PLACES = 1024
"""Rows of a table of coordinates, which are 0 to 1000."""


@dataclass(frozen=True, kw_only=True)
class VT5Config:
    """Sizes of a VT5: settings of transformers' T5Config and BeitConfig.

    Attributes:
        t5: The language model's.
        vision: Those of the image encoder, or None for a model of words and boxes alone.
    """

    t5: Mapping[str, Any]
    vision: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {"t5": dict(self.t5), "vision": None if self.vision is None else dict(self.vision)}

    @classmethod
    def base(cls) -> Self:
        """Returns the paper's sizes: T5-base and DiT-base."""
        return cls(
            t5={"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
            vision={"use_absolute_position_embeddings": True, "use_mask_token": False},
        )


class Answered(NamedTuple):
    """What was written greedily for each row, and how likely else would have been.

    Attributes:
        tokens: Token ids, the end left out.
        confidence: The product of their probabilities, without the end's.
        losses: `VT5.losses`, of the targets.
        empty: The probability that nothing is written.
    """

    tokens: list[list[int]]
    confidence: list[float]
    losses: list[float]
    empty: list[float]


class BoxEmbedding(nn.Module):
    """X[left] + Y[top] + X[right] + Y[bottom], normalised, and a linear layer."""

    def __init__(self, width: int, dropout: float) -> None:
        """Makes fresh tables."""
        super().__init__()
        self.x = nn.Embedding(PLACES, width)
        self.y = nn.Embedding(PLACES, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, width)

    def forward(self, bbox: torch.Tensor) -> torch.Tensor:
        """Returns [batch, sequence, width] for boxes [batch, sequence, 4], 0 to 1000."""
        left, top, right, bottom = bbox.unbind(-1)
        places = self.x(left) + self.y(top) + self.x(right) + self.y(bottom)
        found: torch.Tensor = self.linear(self.dropout(self.norm(places)))
        return found


class VT5(nn.Module):
    """T5 with tables for boxes and, where it reads images, a frozen encoder of them."""

    def __init__(self, config: VT5Config) -> None:
        """Makes a model with fresh weights, T5's drawn as T5 draws them."""
        from transformers import BeitConfig, BeitModel, T5Config, T5ForConditionalGeneration

        super().__init__()
        self.config = config
        make_t5: Any = T5Config
        with quiet_transformers():
            self.t5: Any = T5ForConditionalGeneration(make_t5(**config.t5))
            width: int = self.t5.config.d_model
            self.boxes = BoxEmbedding(width, self.t5.config.dropout_rate)
            self.vision: Any = None
            if config.vision is not None:
                make_beit: Any = BeitConfig
                self.vision = BeitModel(make_beit(**config.vision), add_pooling_layer=False)
                self.projection = nn.Linear(self.vision.config.hidden_size, width)
                self.vision.requires_grad_(False).eval()

    @property
    def architecture(self) -> str:
        """What reads the words."""
        return "t5"

    @property
    def word_embeddings(self) -> nn.Parameter:
        """The vocabulary's table, shape [vocabulary, width]."""
        weight: nn.Parameter = self.t5.shared.weight
        return weight

    @property
    def num_visual(self) -> int:
        """How many tokens a page's image has; 0 where none is read."""
        if self.vision is None:
            return 0
        side = self.vision.config.image_size // self.vision.config.patch_size
        return int(side * side) + 1

    def train(self, mode: bool = True) -> Self:
        """Sets the mode of all but the frozen image encoder."""
        super().train(mode)
        if self.vision is not None:
            self.vision.eval()
        return self

    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        targets: torch.Tensor,
        pixel_values: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns logits [batch, answer, vocabulary], each of the token behind those before it.

        Args:
            input_ids: Prompt, words and end token, [batch, sequence].
            bbox: Their boxes, [batch, sequence, 4], 0 to 1000.
            attention_mask: 1 for tokens, 0 for padding, which comes last.
            targets: The answer's tokens with its end, [batch, answer]; IGNORED behind it.
            pixel_values: [batch, 3, height, width], for models that read images.
        """
        visual = None if pixel_values is None else self.visual(pixel_values)
        return self._decoded(*self.encode(input_ids, bbox, attention_mask, visual), targets)

    def _decoded(
        self, states: torch.Tensor, mask: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        start = targets.new_full((len(targets), 1), self.t5.config.decoder_start_token_id)
        before = torch.cat([start, targets[:, :-1]], 1)
        decoder_input_ids = before.masked_fill(before == IGNORED, self.t5.config.pad_token_id)
        logits: torch.Tensor = self.t5(
            encoder_outputs=(states,), attention_mask=mask, decoder_input_ids=decoder_input_ids
        ).logits
        return logits

    def losses(self, inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        """Returns each row's mean cross-entropy over its answer's tokens, shape [rows].

        `inputs` are those of `forward` by their names; nothing else of a batch enters a row's loss.
        """
        return _losses(self(**inputs, targets=targets), targets)

    @torch.no_grad()
    def visual(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Returns the frozen encoder's tokens of images, [batch, visual tokens, its width]."""
        if self.vision is None:
            raise CheckpointError(
                "This VT5 reads words and boxes alone, and was given images. Leave them out, or "
                "start from a model with an image encoder."
            )
        tokens: torch.Tensor = self.vision(pixel_values).last_hidden_state
        return tokens

    def encode(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        visual: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the encoder's states [batch, keys, width] and their mask [batch, keys]."""
        if (visual is None) != (self.vision is None):
            raise CheckpointError(
                "This VT5 reads images, and was given none. Give each row its page's image."
            )
        embedded = self.t5.shared(input_ids) + self.boxes(bbox)
        mask = attention_mask
        if visual is not None:
            embedded, mask = _behind_words(embedded, self.projection(visual), attention_mask)
        states: torch.Tensor = self.t5.encoder(
            inputs_embeds=embedded, attention_mask=mask
        ).last_hidden_state
        return states, mask

    @torch.no_grad()
    def answer(
        self, inputs: Mapping[str, torch.Tensor], targets: torch.Tensor, *, max_answer: int
    ) -> Answered:
        """Returns the most likely token after each other, at most so many, for each row.

        `inputs` and `targets` are those of `losses`; rows are encoded once.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        images = inputs.get("pixel_values")
        states, mask = self.encode(
            inputs["input_ids"],
            inputs["bbox"],
            inputs["attention_mask"],
            None if images is None else self.visual(images),
        )
        end: int = self.t5.config.eos_token_id
        logits = self._decoded(states, mask, targets).float()
        tokens = mask.new_full((len(mask), 1), self.t5.config.decoder_start_token_id)
        confidence = states.new_ones(len(mask), dtype=torch.float64)
        going = torch.ones(len(mask), dtype=torch.bool, device=mask.device)
        found: list[list[int]] = [[] for _ in range(len(mask))]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for _ in range(max_answer):
            output = self.t5(
                encoder_outputs=(states,),
                attention_mask=mask,
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            likely, chosen = output.logits[:, -1].double().softmax(-1).max(-1)
            going &= chosen != end
            confidence = torch.where(going, confidence * likely, confidence)
            for row in going.nonzero().flatten().tolist():
                found[row].append(int(chosen[row]))
            if not going.any():
                break
            tokens = chosen[:, None]
        return Answered(
            tokens=found,
            confidence=confidence.tolist(),
            losses=_losses(logits, targets).tolist(),
            empty=logits[:, 0].softmax(-1)[:, end].tolist(),
        )

    def image_preprocessing(self) -> ImagePreprocessing | None:
        """Returns how DiT's published processor prepares a page's image; None without one."""
        if self.vision is None:
            return None
        half, side = (0.5, 0.5, 0.5), int(self.vision.config.image_size)
        return ImagePreprocessing(height=side, width=side, resample="bilinear", mean=half, std=half)

    def save(self, folder: Path) -> None:
        """Writes model.safetensors and config.json."""
        from safetensors.torch import save_model

        save_model(self, str(folder / "model.safetensors"))
        text = json.dumps(self.config.to_dict(), indent=2, sort_keys=True) + "\n"
        (folder / "config.json").write_text(text, encoding="utf-8")


def load(folder: Path) -> VT5:
    """Returns the model of a checkpoint folder, in eval mode."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        sizes = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model = VT5(VT5Config(**sizes))
        load_model(model, folder / "model.safetensors")
    except (OSError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"The weights in '{folder}' can't be read: {error}. Train again, or restore the folder."
        ) from error
    return model.eval()


def freeze(model: VT5, *, trained: Trained) -> None:
    """Freezes all parameters but the chosen ones; the image encoder stays frozen.

    Layers are those of encoder and decoder, of each of which "top:N" trains the last N. T5 has no
    biases but norms, and its output layer is the table of words: for "output" only the decoder's
    last norm, which is always trained, is left. Factors of low rank join the model. More layers or
    a larger rank than there is is an InputError.
    """
    stacks = (model.t5.encoder.block, model.t5.decoder.block)
    fewest = min(map(len, stacks))
    if trained.kind == "top" and trained.number > fewest:
        raise InputError(
            f"top:{trained.number} trains more layers than the {fewest} of this 'vt5' model's "
            f"encoder or decoder. Choose top:{fewest} or fewer, or 'encoder'."
        )
    before = {id(value) for value in model.parameters()}
    if trained.kind == "lora":
        for stack in stacks:
            low_rank.adapt(stack, trained.number)
    top = {
        id(value)
        for stack in stacks
        for layer in (stack[len(stack) - trained.number :] if trained.kind == "top" else ())
        for value in layer.parameters()
    }
    always = model.t5.decoder.final_layer_norm.weight
    for name, value in model.named_parameters():
        wanted = {
            "all": True,
            "encoder": value is not model.t5.shared.weight,
            "biases": value.dim() == 1,
        }.get(trained.kind, id(value) in top or id(value) not in before)
        value.requires_grad_((wanted or value is always) and not name.startswith("vision."))


def _losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns each row's mean cross-entropy over its answer's tokens, shape [rows]."""
    each = functional.cross_entropy(
        logits.float().transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
    )
    return each.sum(1) / (targets != IGNORED).sum(1)


def _behind_words(
    words: torch.Tensor, visual: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns each row's words, then its visual tokens, then padding; and the mask of all."""
    num_words, num_visual = words.shape[1], visual.shape[1]
    length = attention_mask.sum(1, keepdim=True)
    at = torch.arange(num_words + num_visual, device=words.device)[None]
    behind = torch.where(at < length + num_visual, at - length + num_words, at - num_visual)
    index = torch.where(at < length, at, behind)
    both = torch.cat([words, visual], 1)
    joined = both.gather(1, index[..., None].expand(-1, -1, both.shape[2]))
    return joined, (at < length + num_visual).to(attention_mask.dtype)
