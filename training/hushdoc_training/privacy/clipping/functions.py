"""Differentiable layers whose backward pass leaves per-record gradients on a tape.

None of them computes a gradient of its parameters for autograd: a layer's backward pass gives the
gradient of its input, and the tape takes what the parameters need. Weights are handed in detached;
the tape's anchor keeps the graph alive where the input itself needs no gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.nn import functional as F  # noqa: N812

from hushdoc_training.privacy.clipping.convolutions import Convolution
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.tape import Tape, Target

Gradient = torch.Tensor
Saved = tuple[torch.Tensor, ...]
Slot = Target | None
"""Where the gradients of a weight or bias go; None where it is frozen or absent."""


def _unwatched(backward: Callable[..., Any]) -> Callable[..., Any]:
    # Interception stays active while saved tensors are fetched, for a checkpoint may compute them
    # again; a layer's own arithmetic needs none.
    @functools.wraps(backward)
    def run(ctx: Any, gradient: Gradient) -> Any:
        saved = ctx.saved_tensors
        with torch.no_grad(), torch._C.DisableTorchFunction():
            return backward(ctx, saved, gradient)

    return run


class Tap(Function):
    """Passes a tensor on that holds a copy for every example, and hands its gradient over."""

    @staticmethod
    def forward(
        ctx: Any, anchor: torch.Tensor, value: torch.Tensor, take: Callable[[Gradient], None]
    ) -> torch.Tensor:
        """Returns the value."""
        ctx.take = take
        return value.view_as(value)

    @staticmethod
    @_unwatched
    def backward(ctx: Any, saved: Saved, gradient: Gradient) -> tuple[None, ...]:
        """Hands the gradient over."""
        ctx.take(gradient)
        return None, None, None


class Linear(Function):
    """x W^T + b, for inputs of any rank."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        tape: Tape,
        slots: tuple[Slot, Slot],
    ) -> torch.Tensor:
        """Returns the layer's output."""
        y = F.linear(x, weight, bias)
        ctx.input_type = x.dtype
        # Under autocast the product was taken of a rounded input.
        ctx.save_for_backward(x.to(y.dtype) if x.dtype != y.dtype else x, weight)
        ctx.tape, ctx.slots = tape, slots
        return y

    @staticmethod
    @_unwatched
    def backward(ctx: Any, saved: Saved, gradient: Gradient) -> tuple[Any, ...]:
        """Returns the gradient of x alone."""
        x, weight = saved
        of_x = None
        if ctx.needs_input_grad[1]:
            of_x = (gradient @ weight.to(gradient.dtype)).to(ctx.input_type)
        examples = ctx.tape.grouping.examples
        u = gradient.reshape(examples, -1, gradient.shape[-1])
        if ctx.slots[0] is not None:
            ctx.tape.add_products(ctx.slots[0], u, x.reshape(examples, -1, x.shape[-1]))
        if ctx.slots[1] is not None:
            ctx.tape.add_by_example(ctx.slots[1], u.sum(1, dtype=torch.float32))
        return None, of_x, None, None, None, None


class Embedding(Function):
    """Rows of a table."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        index: torch.Tensor,
        table: torch.Tensor,
        padding: int | None,
        tape: Tape,
        slot: Target,
    ) -> torch.Tensor:
        """Returns the rows that the index names."""
        ctx.save_for_backward(index)
        ctx.padding, ctx.tape, ctx.slot = padding, tape, slot
        return F.embedding(index, table)

    @staticmethod
    @_unwatched
    def backward(ctx: Any, saved: Saved, gradient: Gradient) -> tuple[None, ...]:
        """Has no input to differentiate."""
        (index,) = saved
        examples = ctx.tape.grouping.examples
        ctx.tape.add_lookups(
            ctx.slot,
            index.reshape(examples, -1),
            gradient.reshape(examples, -1, gradient.shape[-1]),
            ctx.padding,
        )
        return None, None, None, None, None, None


class LayerNorm(Function):
    """Layer normalisation with a weight, with or without a bias."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        shape: Sequence[int],
        eps: float,
        tape: Tape,
        slots: tuple[Slot, Slot],
    ) -> torch.Tensor:
        """Returns the layer's output."""
        x = x.contiguous()
        y, mean, deviation = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(x, mean, deviation, weight, bias)
        ctx.shape, ctx.tape, ctx.slots = shape, tape, slots
        return y

    @staticmethod
    @_unwatched
    def backward(ctx: Any, saved: Saved, gradient: Gradient) -> tuple[Any, ...]:
        """Returns the gradient of x alone."""
        x, mean, deviation, weight, bias = saved

        def kernel(g: Any, image: Any, m: Any, d: Any, wanted: list[bool]) -> Any:
            wanted = [*wanted[:2], wanted[2] and bias is not None]
            return torch.ops.aten.native_layer_norm_backward(
                g, image, ctx.shape, m, d, weight, bias, wanted
            )

        return _normalisation_backward(ctx, kernel, (gradient.contiguous(), x, mean, deviation))


class GroupNorm(Function):
    """Group normalisation with a weight and a bias."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        groups: int,
        eps: float,
        tape: Tape,
        slots: tuple[Slot, Slot],
    ) -> torch.Tensor:
        """Returns the layer's output."""
        x = x.contiguous()
        num_examples, channels = x.shape[:2]
        positions = x[0, 0].numel()
        y, mean, deviation = torch.native_group_norm(
            x, weight, bias, num_examples, channels, positions, groups, eps
        )
        ctx.save_for_backward(x, mean, deviation, weight)
        ctx.sizes, ctx.tape, ctx.slots = (channels, positions, groups), tape, slots
        return y

    @staticmethod
    @_unwatched
    def backward(ctx: Any, saved: Saved, gradient: Gradient) -> tuple[Any, ...]:
        """Returns the gradient of x alone."""
        x, mean, deviation, weight = saved

        def kernel(g: Any, image: Any, m: Any, d: Any, wanted: list[bool]) -> Any:
            return torch.ops.aten.native_group_norm_backward(
                g, image, m, d, weight, image.shape[0], *ctx.sizes, wanted
            )

        return _normalisation_backward(ctx, kernel, (gradient.contiguous(), x, mean, deviation))


class Convolve(Function):
    """Convolutions of one to three dimensions, transposed ones too."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        settings: Convolution,
        tape: Tape,
        slots: tuple[Slot, Slot],
    ) -> torch.Tensor:
        """Returns the layer's output."""
        ctx.input_type = x.dtype
        x = _as_autocast(x)
        ctx.save_for_backward(x, weight)
        weight = _as_autocast(weight)
        bias = None if bias is None else _as_autocast(bias)
        y = torch.convolution(
            x,
            weight,
            bias,
            settings.stride,
            settings.padding,
            settings.dilation,
            settings.transposed,
            settings.output_padding,
            settings.groups,
        )
        ctx.settings, ctx.tape, ctx.slots = settings, tape, slots
        return y

    @staticmethod
    @_unwatched
    def backward(ctx: Any, saved: Saved, gradient: Gradient) -> tuple[Any, ...]:
        """Returns the gradient of x alone."""
        x, weight = saved
        of_x = None
        if ctx.needs_input_grad[1]:
            found, _ = ctx.settings.backward(
                gradient, x, weight.to(x.dtype), of_image=True, of_weight=False
            )
            of_x = found.to(ctx.input_type)
        examples = ctx.tape.grouping.examples
        if ctx.slots[0] is not None:
            ctx.tape.add_convolved(ctx.slots[0], x, gradient, ctx.settings)
        if ctx.slots[1] is not None:
            by_example = gradient.flatten(2).sum(2, dtype=torch.float32)
            ctx.tape.add_by_example(
                ctx.slots[1], by_example.reshape(examples, -1, by_example.shape[1]).sum(1)
            )
        return None, of_x, None, None, None, None, None


def _as_autocast(tensor: torch.Tensor) -> torch.Tensor:
    # torch.convolution is below the functions that autocast knows.
    device = tensor.device.type
    if not torch.is_autocast_enabled(device):
        return tensor
    return tensor.to(torch.get_autocast_dtype(device))


def _normalisation_backward(
    ctx: Any, kernel: Callable[..., Any], per_example: Sequence[torch.Tensor]
) -> tuple[Any, ...]:
    # The kernel's last argument says which gradients are wanted: of x, of weight, of bias.
    of_x = kernel(*per_example, [True, False, False])[0] if ctx.needs_input_grad[1] else None
    if ctx.tape.listening:
        _add_affine(ctx.tape.grouping, ctx.slots, kernel, per_example)
    return None, of_x, None, None, None, None, None, None


def _add_affine(
    grouping: Grouping,
    slots: tuple[Slot, Slot],
    kernel: Callable[..., Any],
    per_example: Sequence[torch.Tensor],
) -> None:
    # A normalisation's own kernel, called once for every record.
    examples = [tensor.reshape(grouping.examples, -1, *tensor.shape[1:]) for tensor in per_example]
    for slot in slots:
        if slot is not None:
            slot_shape = (grouping.num_records, *slot.tensor.shape)
            slot.add_dense(per_example[0].new_zeros(slot_shape, dtype=torch.float32))
    for record in range(grouping.num_records):
        if not grouping.size(record):
            continue
        mine = (grouping.take(tensor, record).flatten(0, 1) for tensor in examples)
        found = kernel(*mine, [False, True, True])
        for slot, gradient in zip(slots, found[1:], strict=True):
            if slot is not None:
                slot.dense[record] += gradient  # type: ignore[index]
