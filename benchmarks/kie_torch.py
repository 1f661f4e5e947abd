"""LayoutLMv3 in torch: a classifier of tokens with random weights, as it is, in int8, compiled."""

from __future__ import annotations

from typing import Any


def build(*, layers: int, hidden: int, heads: int, labels: int) -> Any:
    """Returns a LayoutLMv3 token classifier of random weights."""
    import torch
    import transformers

    class Classifier(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(
            self, input_ids: Any, bbox: Any, attention_mask: Any, pixel_values: Any = None
        ) -> Any:
            return self.inner(
                input_ids=input_ids,
                bbox=bbox,
                attention_mask=attention_mask,
                pixel_values=pixel_values,
            ).logits

    torch.manual_seed(0)
    config = transformers.LayoutLMv3Config(
        num_labels=labels,
        max_position_embeddings=514,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        coordinate_size=hidden // 6,
        shape_size=hidden // 6,
    )
    return Classifier(transformers.LayoutLMv3ForTokenClassification(config).eval()).eval()


def quantized(model: Any) -> Any:
    """Returns the model with weights in bytes, activations rounded as they come."""
    from torch import nn
    from torch.ao import quantization

    # The layers of relative places are tables whose weights the model reads itself.
    layers = {
        name: quantization.default_dynamic_qconfig
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and "rel_pos" not in name
    }
    return quantization.quantize_dynamic(model, layers)


def compiled(model: Any) -> Any:
    """Returns the model compiled by torch's inductor with its weights frozen and packed."""
    import torch
    import torch._inductor.config

    torch._inductor.config.freezing = True
    return torch.compile(model)
