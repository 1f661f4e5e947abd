"""Attention as one operator: what a model's code does in several steps is traced as one.

ONNX has had such an operator since its operator set 23, which is what torch's own function for
attention is traced to. Most models call that function; LayoutLMv3 has steps of its own.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial, update_wrapper
from typing import Any

OPSET = 23
"""ONNX's operator set that has attention; onnxruntime 1.23 is the first to read it."""


def opset(torch: Any) -> int | None:
    """Returns the operator set to trace with: None, torch's default, where it can't write OPSET."""
    return OPSET if hasattr(getattr(torch.onnx, "ops", None), "attention") else None


@contextlib.contextmanager
def in_one_step(model: Any) -> Iterator[None]:
    """Has models call torch's function for attention, in the form that ONNX Runtime reads.

    LayoutLMv3's own softmax (Ding et al. 2021, PB-Relax) keeps half precision from overflowing in
    training; the answers are the same, as every softmax subtracts the largest score.
    """
    import torch

    parts = [part for part in model.modules() if hasattr(part, "cogview_attention")]
    for part in parts:
        part.forward = update_wrapper(partial(_attended, part), _attended)
    functions = torch.nn.functional
    attention = functions.scaled_dot_product_attention
    # With its name: torch names the functions that a wrong model has called.
    functions.scaled_dot_product_attention = update_wrapper(
        partial(_with_whole_mask, attention), attention
    )
    try:
        yield
    finally:
        functions.scaled_dot_product_attention = attention
        for part in parts:
            del part.forward


def _with_whole_mask(
    attention: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, **settings: Any
) -> Any:
    """Returns attention by a mask with a row for each query, which ONNX Runtime demands."""
    if attn_mask is not None and attn_mask.shape[-2] == 1:
        attn_mask = attn_mask.expand(*attn_mask.shape[:-2], query.shape[-2], -1)
    return attention(query, key, value, attn_mask=attn_mask, **settings)


def _attended(
    part: Any,
    hidden_states: Any,  # [batch, sequence, heads * width]
    attention_mask: Any = None,  # [batch, 1, 1, sequence], added to scores
    rel_pos: Any = None,  # [batch, heads, sequence, sequence]
    rel_2d_pos: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Returns what LayoutLMv3SelfAttention.forward does outside training, without the weights."""
    import torch

    width = part.attention_head_size
    query, key, value = (
        project(hidden_states).unflatten(-1, (-1, width)).transpose(1, 2)
        for project in (part.query, part.key, part.value)
    )
    bias = attention_mask
    if part.has_relative_attention_bias:
        places = rel_pos + rel_2d_pos if part.has_spatial_attention_bias else rel_pos
        places = places / math.sqrt(width)
        bias = places if bias is None else places + bias
    context = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    return context.transpose(1, 2).flatten(-2), None
