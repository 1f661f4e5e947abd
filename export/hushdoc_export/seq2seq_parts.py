"""The parts of a VT5 as modules of their own, whose inputs and outputs are those of its graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache

if TYPE_CHECKING:
    from hushdoc_training.models.vt5 import VT5


class Vision(nn.Module):
    """The frozen encoder of images."""

    def __init__(self, model: VT5) -> None:
        """Takes it out of a model."""
        super().__init__()
        self.vision = model.vision

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Returns visual tokens, [batch, visual tokens, width]."""
        tokens: torch.Tensor = self.vision(pixel_values).last_hidden_state
        return tokens


class Encoder(nn.Module):
    """The encoder with the keys and values of each decoder layer's attention to it."""

    def __init__(self, model: VT5) -> None:
        """Takes it out of a model."""
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        visual: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Returns the mask [batch, keys], then keys and values for each layer of the decoder.

        Keys are [batch, heads, d_kv, keys], values [batch, heads, keys, d_kv].
        """
        states, mask = self.model.encode(input_ids, bbox, attention_mask, visual)
        width = self.model.t5.config.d_kv
        across = (block.layer[1].EncDecAttention for block in self.model.t5.decoder.block)
        return mask, *(
            layer(states).unflatten(-1, (-1, width)).permute(0, 2, *order)
            for attention in across
            for layer, order in ((attention.k, (3, 1)), (attention.v, (1, 3)))
        )


class Decoder(nn.Module):
    """The decoder for some tokens: what it remembers of those before, and of the page, is given."""

    def __init__(self, model: VT5) -> None:
        """Takes it out of a model."""
        super().__init__()
        self.t5 = model.t5

    def forward(
        self, tokens: torch.Tensor, encoder_mask: torch.Tensor, *remembered: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Returns logits [batch, tokens, vocabulary], then keys and values.

        Those are [batch, heads, past + tokens, d_kv]. Keys and values of each layer's past come
        first, then those of each layer's attention to the page, whose keys are [batch, heads, d_kv,
        keys].
        """
        layers = len(self.t5.decoder.block)
        past, cross = DynamicCache(), DynamicCache()
        for number, pair in enumerate(zip(remembered[::2], remembered[1::2], strict=True)):
            if number < layers:
                past.update(*pair, layer_idx=number)
            else:
                cross.update(pair[0].transpose(2, 3), pair[1], layer_idx=number - layers)
        both = EncoderDecoderCache(past, cross)
        both.is_updated = dict.fromkeys(range(layers), True)
        # The states of the page are not read any more, but how many there are is.
        states = remembered[-1].new_zeros(*encoder_mask.shape, self.t5.config.d_model)
        output = self.t5(
            encoder_outputs=(states,),
            attention_mask=encoder_mask,
            decoder_input_ids=tokens,
            past_key_values=both,
            use_cache=True,
        )
        made = output.past_key_values.self_attention_cache.layers
        return output.logits, *(x for layer in made for x in (layer.keys, layer.values))
