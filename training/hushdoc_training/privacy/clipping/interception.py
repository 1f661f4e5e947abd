"""Follows trainable parameters through a forward pass and puts every use of one on the tape.

While `Interception` is active, torch hands it every function that is called on tensors. Tensors are
of five kinds:

    shared     a trainable parameter, or something computed from parameters and constants alone: a
               relative position bias, a normalised weight, position embeddings
    rowwise    something that depends on what the losses hand to the model
    constant   buffers, frozen parameters, masks made of ranges
    outside    what the losses bring along without an entry for every row; a part of it may have one
    scattered  rows picked by what is in them, by a mask say: whose they are is no longer known

A function of shared and constant tensors is left to autograd, and its result is shared. Where a
shared tensor meets a rowwise one, rows begin to differ: there the rules of `meetings` replace it by
a layer that reports its gradient row by row. So tied, reused, broadcast and isolated parameters
need no case of their own. A meeting without a rule is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from hushdoc_training.privacy.clipping.calls import Call
from hushdoc_training.privacy.clipping.meetings import meet
from hushdoc_training.privacy.clipping.opening import composite
from hushdoc_training.privacy.clipping.placement import Placement
from hushdoc_training.privacy.clipping.tape import Tape, leaves

_ROWWISE, _SHARED, _CONSTANT = "rowwise", "shared", "constant"
_OUTSIDE, _SCATTERED = "outside", "scattered"
# What these take from another tensor is its shape or type, not its content.
_LENDING = frozenset({"expand_as", "reshape_as", "to", "type_as", "view_as"})
_PICKING = frozenset({"masked_select", "nonzero", "argwhere", "unique", "take"})
_PICKING_ALONG_AN_AXIS = frozenset({"index_select", "repeat_interleave"})


class Interception(TorchFunctionMode):
    """Active during one forward and backward pass (activation checkpoints run parts again)."""

    def __init__(self, tape: Tape, model: nn.Module, placement: Placement) -> None:
        """Learns which tensors are the model's own."""
        super().__init__()
        self._tape = tape
        self._names = {id(p): name for name, p in placement.parameters.items()}
        # Kept, for a tensor that goes leaves its id to the next one.
        self._own = [*model.parameters(), *model.buffers(), *placement.constants]
        self._constants = {id(tensor) for tensor in self._own} - self._names.keys()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs a function, or what stands for it where parameters meet rows."""
        return self._call(func, args, kwargs or {})

    def _call(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        tensors = list(_tensors((args, kwargs)))
        kinds = [self._kind(tensor) for tensor in tensors]
        scattered = _SCATTERED in kinds
        rowwise = scattered or (_ROWWISE in kinds and not self._lends(func, args))
        shared = _SHARED in kinds and torch.is_grad_enabled()
        if shared and rowwise:
            inside = composite(func, self._tape.grouping.rows)
            if inside is not None:
                with self:
                    return inside(*args, **kwargs)
            call = self._as_call(func, args, kwargs, tensors, kinds)
            if scattered:
                raise call.refuse("on rows that were picked by their content")
            result = meet(call)
            self._mark(result, _ROWWISE)
            return result
        result = func(*args, **kwargs)
        kind = _ROWWISE if rowwise else _SHARED if shared else _CONSTANT
        if kind == _CONSTANT and _OUTSIDE in kinds:
            return result
        if scattered or (rowwise and self._picks(func, args, result)):
            kind = _SCATTERED
        if rowwise and args and _changes_first(func):
            self._mark((args[0], args[0]._base), kind)
        self._mark(result, kind)
        return result

    def _as_call(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[torch.Tensor],
        kinds: Sequence[str],
    ) -> Call:
        shared = [t for t, kind in zip(tensors, kinds, strict=True) if kind == _SHARED]
        return Call(
            tape=self._tape,
            func=func,
            args=tuple(args),
            kwargs=dict(kwargs),
            shared=frozenset(map(id, shared)),
            rowwise=tuple(t for t, k in zip(tensors, kinds, strict=True) if k == _ROWWISE),
            names=tuple(dict.fromkeys(name for t in shared for name in self._origin(t))),
            again=lambda func, *args, **kwargs: self._call(func, args, kwargs),
        )

    def _kind(self, tensor: torch.Tensor) -> str:
        if id(tensor) in self._names:
            return _SHARED
        if id(tensor) in self._constants:
            return _CONSTANT
        mark = getattr(tensor, "_hushdoc_mark", None)
        if mark is not None and mark[0] is self._tape.token:
            return mark[1]
        # From outside: the losses' own tensors, or the result of something that can't be watched.
        unwatched = tensor.requires_grad and not tensor.is_leaf
        by_row = tensor.dim() > 0 and len(tensor) == self._tape.grouping.rows
        return _ROWWISE if by_row or unwatched else _OUTSIDE

    def _mark(self, result: Any, kind: str) -> None:
        for tensor in _tensors(result):
            if id(tensor) in self._names or id(tensor) in self._constants:
                continue
            differentiable = kind != _SHARED or tensor.requires_grad
            tensor._hushdoc_mark = (  # type: ignore[attr-defined]
                self._tape.token,
                kind if differentiable else _CONSTANT,
            )

    def _lends(self, func: Callable[..., Any], args: Sequence[Any]) -> bool:
        return _name(func) in _LENDING and self._kind(args[0]) != _ROWWISE

    def _picks(self, func: Callable[..., Any], args: Sequence[Any], result: Any) -> bool:
        # Whether how many entries come out, and whose they are, depends on the content.
        if _name(func) in _PICKING:
            return True
        if _name(func) in _PICKING_ALONG_AN_AXIS:
            return not args or len(result) != len(args[0])
        if _name(func) != "__getitem__" or self._kind(args[0]) != _ROWWISE:
            return False
        first = args[1][0] if isinstance(args[1], tuple) and args[1] else args[1]
        if not isinstance(first, torch.Tensor):
            return False
        return first.dtype in (torch.bool, torch.uint8) or first.numel() != len(args[0])

    def _origin(self, tensor: torch.Tensor) -> Iterator[str]:
        # The parameters that a shared tensor was computed from, by name: for messages alone.
        if id(tensor) in self._names:
            yield self._names[id(tensor)]
            return
        for leaf in leaves(tensor):
            if id(leaf) in self._names:
                yield self._names[id(leaf)]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", "")


def _changes_first(func: Callable[..., Any]) -> bool:
    name = _name(func)
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.startswith("__i") or name in {"__setitem__", "__set__"}
