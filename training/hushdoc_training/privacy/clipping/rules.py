"""Rules for functions that combine a shared tensor (see `interception`) with a batch's examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from hushdoc_training.privacy.clipping import functions
from hushdoc_training.privacy.clipping.calls import (
    Call,
    batch_size,
    bound,
    check_examples,
    tapped,
    tensors_of,
    watched,
    with_taps,
)
from hushdoc_training.privacy.clipping.convolutions import Convolution

Rule = Callable[[Call], Any]


def combine(call: Call) -> Any:
    """Runs a function with its shared arguments replaced by ones that report their gradients."""
    rule = _RULES.get(call.func) or _BY_NAME.get(call.name)
    if rule is None:
        raise call.refuse("for which there is no rule")
    return rule(call)


def _linear(call: Call) -> Any:
    x, weight, bias = bound(call, ("input", "weight", "bias"), (None,))
    if call.is_shared(x):
        x = tapped(call, x, x.dim(), len(x))
    return _layer(call, functions.Linear, x, weight, bias)


def _embedding(call: Call) -> Any:
    index, table, padding, max_norm, _, by_frequency, _ = bound(
        call,
        ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
        (None, None, 2.0, False, False),
    )
    if max_norm is not None or by_frequency:
        raise call.refuse(
            "with max_norm or scale_grad_by_freq, which couple the examples of a batch"
        )
    if padding is not None and padding < 0:
        padding += len(table)
    check_examples(call, index)
    return functions.Embedding.apply(
        call.tape.anchor, index, _detached(call, table), padding, call.tape, call.tape.target(table)
    )


def _item(call: Call) -> Any:
    # table[index]
    table, index = call.args
    index = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    plain = isinstance(index, torch.Tensor) and index.dtype == torch.int64 and table.dim() == 2
    if not plain or not call.is_shared(table):
        raise call.refuse("for which there is no rule")
    check_examples(call, index)
    index = torch.where(index < 0, index + len(table), index)
    return functions.Embedding.apply(
        call.tape.anchor, index, _detached(call, table), None, call.tape, call.tape.target(table)
    )


def _layer_norm(call: Call) -> Any:
    x, shape, weight, bias, eps = bound(
        call, ("input", "normalized_shape", "weight", "bias", "eps"), (None, None, 1e-5)
    )
    if call.is_shared(x) or not call.is_shared(weight) or x.dtype != weight.dtype:
        return _affine(call, F.layer_norm(*watched(call, x), shape, eps=eps), weight, bias, 0)
    return _layer(call, functions.LayerNorm, x, weight, bias, tuple(shape), eps)


def _group_norm(call: Call) -> Any:
    x, groups, weight, bias, eps = bound(
        call, ("input", "num_groups", "weight", "bias", "eps"), (None, None, 1e-5)
    )
    trained = call.is_shared(weight) and bias is not None
    if call.is_shared(x) or not trained or x.dtype != weight.dtype:
        normalised = F.group_norm(*watched(call, x), groups, eps=eps)
        return _affine(call, normalised, weight, bias, x.dim() - 2)
    return _layer(call, functions.GroupNorm, x, weight, bias, groups, eps)


def _rms_norm(call: Call) -> Any:
    x, shape, weight, eps = bound(call, ("input", "normalized_shape", "weight", "eps"), (None,) * 2)
    return _affine(call, F.rms_norm(*watched(call, x), shape, eps=eps), weight, None, 0)


def _instance_norm(call: Call) -> Any:
    x, mean, var, weight, bias, use_input, _, eps = bound(
        call,
        (
            "input",
            "running_mean",
            "running_var",
            "weight",
            "bias",
            "use_input_stats",
            "momentum",
            "eps",
        ),
        (None, None, None, None, True, 0.1, 1e-5),
    )
    if mean is not None or var is not None or not use_input:
        raise call.refuse("with running statistics, which mix records")
    normalised = F.instance_norm(*watched(call, x), eps=eps)
    return _affine(call, normalised, weight, bias, x.dim() - 2)


def _prelu(call: Call) -> Any:
    x, weight = bound(call, ("input", "weight"), ())
    slope = call.again(torch.Tensor.view, weight, (-1, *[1] * (x.dim() - 2)))
    return torch.where(x > 0, x, call.again(torch.mul, x, slope))


def _convolution(dimensions: int, transposed: bool) -> Rule:
    names = ["input", "weight", "bias", "stride", "padding"]
    names += ["output_padding", "groups", "dilation"] if transposed else ["dilation", "groups"]
    defaults = (None, 1, 0, 0, 1, 1) if transposed else (None, 1, 0, 1, 1)

    def rule(call: Call) -> Any:
        values = dict(zip(names, bound(call, tuple(names), defaults), strict=True))
        x, weight, bias = values["input"], values["weight"], values["bias"]
        unbatched = x.dim() == dimensions + 1
        if call.is_shared(x) or unbatched or len(x) % call.tape.grouping.examples:
            raise call.refuse("without a batch of images")
        wide = {
            name: _wide(values.get(name, 0), dimensions)
            for name in ("stride", "dilation", "output_padding")
        }
        x, padding = _padded(x, weight, values["padding"], wide["dilation"])
        settings = Convolution(
            transposed=transposed,
            groups=values["groups"],
            padding=_wide(padding, dimensions),
            **wide,
        )
        return _layer(call, functions.Convolve, x, weight, bias, settings)

    return rule


def _broadcast(call: Call) -> Any:
    # Element-wise functions, and products of batches: shared arguments get an axis for examples.
    if call.in_place and call.is_shared(call.args[0]):
        raise call.refuse("in place on a copy of it")
    shapes = [tensor.shape for tensor in tensors_of(call.args, call.kwargs)]
    dimensions = max(len(shape) for shape in shapes)
    batch = batch_size(call, dimensions)
    return with_taps(call, dimensions, batch)


def _joined(call: Call) -> Any:
    # cat and stack along any axis but the batch's.
    values, axis = bound(call, ("tensors", "dim"), (0,))
    dimensions = values[0].dim()
    if axis in (0, -dimensions):
        raise call.refuse("along the axis of the batch")
    return with_taps(call, dimensions, batch_size(call, dimensions))


def _product(call: Call) -> Any:
    left, right = call.args[:2] if len(call.args) > 1 else (call.args[0], call.kwargs["other"])
    if call.name == "__rmatmul__":
        left, right = right, left
    if not call.is_shared(left) and call.is_shared(right) and right.dim() == 2 and left.dim() > 1:
        return call.again(F.linear, left, call.again(torch.t, right))
    if max(left.dim(), right.dim()) < 3 or min(left.dim(), right.dim()) < 2:
        raise call.refuse("of a vector or along the axis of the batch")
    return _broadcast(call)


def _addmm(call: Call) -> Any:
    bias, x, weight = call.args[:3]
    if call.kwargs or len(call.args) > 3 or call.is_shared(x):
        raise call.refuse("with factors")
    return call.again(F.linear, x, call.again(torch.t, weight), bias)


def _attention(call: Call) -> Any:
    query = call.args[0] if call.args else call.kwargs["query"]
    return with_taps(call, query.dim(), batch_size(call, query.dim()))


def _layer(call: Call, layer: Any, x: torch.Tensor, weight: Any, bias: Any, *settings: Any) -> Any:
    check_examples(call, x)
    slots = (call.slot(weight), call.slot(bias))
    weight, bias = _detached(call, weight), _detached(call, bias)
    return layer.apply(call.tape.anchor, x, weight, bias, *settings, call.tape, slots)


def _affine(call: Call, normalised: Any, weight: Any, bias: Any, trailing: int) -> Any:
    # Channels stand `trailing` axes before the last.
    shape = (-1, *[1] * trailing)
    if weight is not None:
        weight = call.again(torch.Tensor.view, weight, shape) if trailing else weight
        normalised = _again_per_example(call, torch.mul, normalised, weight)
    if bias is not None:
        bias = call.again(torch.Tensor.view, bias, shape) if trailing else bias
        normalised = _again_per_example(call, torch.add, normalised, bias)
    return normalised


def _again_per_example(call: Call, func: Any, x: torch.Tensor, other: torch.Tensor) -> Any:
    x._hushdoc_mark = (call.tape.token, "per_example")  # type: ignore[attr-defined]
    return call.again(func, x, other)


def _detached(call: Call, tensor: torch.Tensor | None) -> torch.Tensor | None:
    # What a layer takes without giving a gradient back must not have one to get.
    if tensor is not None and tensor.requires_grad and not call.is_shared(tensor):
        raise call.refuse("with a weight or bias that differs from example to example")
    return None if tensor is None else tensor.detach()


def _wide(value: Any, dimensions: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (int(value),) * dimensions


def _padded(
    x: torch.Tensor, weight: torch.Tensor, padding: Any, dilation: tuple[int, ...]
) -> tuple[torch.Tensor, Any]:
    if padding == "valid":
        return x, 0
    if padding != "same":
        return x, padding
    totals = [d * (size - 1) for d, size in zip(dilation, weight.shape[2:], strict=True)]
    sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
    return F.pad(x, sides), 0


_RULES: dict[Callable[..., Any], Rule] = {
    F.linear: _linear,
    F.embedding: _embedding,
    F.layer_norm: _layer_norm,
    F.group_norm: _group_norm,
    F.rms_norm: _rms_norm,
    F.instance_norm: _instance_norm,
    F.prelu: _prelu,
    F.scaled_dot_product_attention: _attention,
    F.conv1d: _convolution(1, False),
    F.conv2d: _convolution(2, False),
    F.conv3d: _convolution(3, False),
    F.conv_transpose1d: _convolution(1, True),
    F.conv_transpose2d: _convolution(2, True),
    F.conv_transpose3d: _convolution(3, True),
}
_ELEMENTWISE = (
    "add sub subtract mul multiply div divide true_divide where maximum minimum lerp addcmul "
    "addcdiv pow __pow__ __rpow__ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ rsub __mul__ "
    "__rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__ __rdiv__ add_ sub_ mul_ div_ "
    "masked_fill clamp bmm baddbmm gt ge lt le eq ne __gt__ __ge__ __lt__ __le__ __eq__ __ne__"
)
_BY_NAME: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _broadcast),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), _joined),
    **dict.fromkeys(("matmul", "__matmul__", "__rmatmul__"), _product),
    "__getitem__": _item,
    "addmm": _addmm,
}
