"""Attention as one operator: what a model's code does in several steps is traced as one.

ONNX has had such an operator since its operator set 23, which is what torch's own function for
attention is traced to. Most models call that function; LayoutLMv3 has steps of its own, and a bias
for each pair of tokens by how far apart they stand. T5 has such a bias too, and lets others compute
its attention (`by_head`).
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterator
from functools import partial, reduce, update_wrapper
from typing import Any

BY_HEAD = "hushdoc_by_head"
"""What transformers knows `by_head` as."""

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

    replaced = [
        (part, name, update_wrapper(partial(function, part), function))
        for part in model.modules()
        for mark, name, function in _OWN_STEPS
        if hasattr(part, mark)
    ]
    for part, name, function in replaced:
        setattr(part, name, function)
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
        for part, name, _ in replaced:
            delattr(part, name)


@contextlib.contextmanager
def computed_by_head(config: Any) -> Iterator[None]:
    """Has the models of these settings of transformers compute attention by `by_head`.

    Outside of it they compute their own, which graphs are held to.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(BY_HEAD, by_head)
    AttentionMaskInterface.register(BY_HEAD, eager_mask)
    own, config._attn_implementation = config._attn_implementation, BY_HEAD
    try:
        yield
    finally:
        config._attn_implementation = own


def by_head(
    _part: Any,
    query: Any,  # [batch, heads, queries, width]
    key: Any,  # [batch, heads, keys, width]
    value: Any,
    attention_mask: Any = None,  # [batch, 1, queries, keys], added to scores
    *,
    scaling: float,
    position_bias: Any = None,  # [1, heads, queries, keys], added too
    **_: Any,
) -> tuple[Any, None]:
    """Returns what transformers' `eager_attention_forward` does outside training, no weights.

    Head by head: the scores of one stay in the processor's cache, those of all do not.
    """
    import torch

    heads = query.shape[1]
    given = [bias for bias in (position_bias, attention_mask) if bias is not None]
    biases = reduce(operator.add, given).split(1, dim=1) if given else [None]
    attention = torch.nn.functional.scaled_dot_product_attention
    context = [
        attention(one, keys, values, attn_mask=bias, scale=scaling)
        for one, keys, values, bias in zip(
            _apart(query),
            _apart(key),
            _apart(value),
            biases if len(biases) == heads else biases * heads,
            strict=True,
        )
    ]
    return torch.cat(context, dim=-1).squeeze(1).unflatten(-1, (heads, -1)), None


def _apart(states: Any) -> Any:
    """Returns the heads of [batch, heads, tokens, width] as they lay before they were told apart.

    So written, the caller's transposition falls away in the graph.
    """
    return states.transpose(1, 2).flatten(2).unsqueeze(1).split(states.shape[-1], dim=-1)


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
    rel_pos: Any = None,  # [batch, heads, sequence, sequence], divided already
    rel_2d_pos: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Returns what LayoutLMv3SelfAttention.forward does outside training, without the weights.

    Head by head: the scores of one stay in the processor's cache, those of all do not.
    """
    import torch

    width = part.attention_head_size
    query, key, value = (
        project(hidden_states).unsqueeze(1).split(width, dim=-1)
        for project in (part.query, part.key, part.value)
    )
    biases = [attention_mask] * len(query)
    if part.has_relative_attention_bias:
        bias = rel_pos + rel_2d_pos if part.has_spatial_attention_bias else rel_pos
        bias = bias if attention_mask is None else bias + attention_mask
        biases = bias.split(1, dim=1)
    attention = torch.nn.functional.scaled_dot_product_attention
    context = [
        attention(*head[:3], attn_mask=head[3])
        for head in zip(query, key, value, biases, strict=True)
    ]
    return torch.cat(context, dim=-1).squeeze(1), None


def _by_token(part: Any, position_ids: Any) -> Any:
    """Returns what LayoutLMv3Encoder._cal_1d_pos_emb does, divided as `_attended` needs it."""
    return _by_distance(
        part, part.rel_pos_bias, position_ids, bins=part.rel_pos_bins, most=part.max_rel_pos
    ).permute(0, 3, 1, 2)


def _by_place(part: Any, bbox: Any) -> Any:
    """Returns what LayoutLMv3Encoder._cal_2d_pos_emb does, divided as `_attended` needs it."""
    across, down = (
        _by_distance(
            part, table, bbox[:, :, side], bins=part.rel_2d_pos_bins, most=part.max_rel_2d_pos
        )
        for table, side in ((part.rel_pos_x_bias, 0), (part.rel_pos_y_bias, 3))
    )
    return (across + down).permute(0, 3, 1, 2)


def _by_distance(part: Any, table: Any, places: Any, *, bins: int, most: int) -> Any:
    """Returns the bias [batch, sequence, sequence, heads] of tokens at places [batch, sequence].

    It is looked up by distance: which bin a distance is in is found at export. Beyond `most` all
    are in the last one.
    """
    import torch

    width = part.config.hidden_size // part.config.num_attention_heads
    bucket = part.relative_position_bucket(
        torch.arange(-most, most + 1), num_buckets=bins, max_distance=most
    )
    biases = table.weight.t()[bucket] / math.sqrt(width)
    apart = places.unsqueeze(-2) - places.unsqueeze(-1)
    return biases[apart.clamp(-most, most) + most]


_OWN_STEPS = (
    ("cogview_attention", "forward", _attended),
    ("_cal_1d_pos_emb", "_cal_1d_pos_emb", _by_token),
    ("_cal_2d_pos_emb", "_cal_2d_pos_emb", _by_place),
)
"""What LayoutLMv3 does in steps of its own: by what its part is known, and the function."""
