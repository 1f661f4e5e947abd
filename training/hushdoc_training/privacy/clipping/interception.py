"""Follows trainable parameters through a forward pass and puts every use of one on the tape.

While `Interception` is active, torch hands it every function that is called on tensors. Tensors
have one of four roles:

    shared        a trainable parameter, or something computed from parameters and constants alone:
                  a relative position bias, a normalised weight, position embeddings
    per_example   what the losses hand to the model with an entry for every example, and what
                  depends on it
    constant      everything else: buffers, frozen parameters, ranges, attributes, global tensors
    scattered     examples that were picked or sorted: which entry is whose is no longer known

A function of shared and constant tensors is left to autograd, and its result is shared. Where a
shared tensor is combined with a per_example one, examples begin to differ: there a rule of `rules`
replaces the function by a layer that reports its gradient example by example. So tied, reused,
broadcast and isolated parameters need no case of their own. A combination without a rule is refused
by name.

Which tensors are per_example is known from where they came from, never from a length: a constant
may be as long as the batch. To take examples for a constant is safe: where the result is combined
with examples, their gradients are kept apart there, and where it is not, the parameters get
gradients past the tape, which is refused. To take a constant for examples would clip the wrong
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from hushdoc_training.privacy.clipping.calls import Call, tensors_of
from hushdoc_training.privacy.clipping.placement import Placement
from hushdoc_training.privacy.clipping.reordering import reorders
from hushdoc_training.privacy.clipping.rules import combine
from hushdoc_training.privacy.clipping.tape import Tape, leaves
from hushdoc_training.privacy.clipping.unwrapped_torch import composite

_PER_EXAMPLE, _SHARED = "per_example", "shared"
_CONSTANT, _SCATTERED = "constant", "scattered"
# What these take from another tensor than the first is its shape or type, not its content.
_LENDING = frozenset({"expand_as", "reshape_as", "to", "type_as", "view_as"})
# And these from the first.
_BLANK = frozenset({"new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"})


class Interception(TorchFunctionMode):
    """Active during one forward and backward pass (activation checkpoints run parts again)."""

    def __init__(self, tape: Tape, model: nn.Module, placement: Placement) -> None:
        """Learns which tensors are the model's own."""
        super().__init__()
        self.moved: list[torch.Tensor] = []
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
        """Runs a function, or what stands for it where parameters are combined with examples."""
        return self._call(func, args, kwargs or {})

    def enter(self, tensor: torch.Tensor) -> None:
        """Takes a tensor handed to the model: what the losses built is constant until then."""
        fits = tensor.dim() and len(tensor) == self._tape.grouping.examples
        if fits and self._role(tensor) == _CONSTANT:
            self._mark(tensor, _PER_EXAMPLE)

    def is_scattered(self, tensor: torch.Tensor) -> bool:
        """Returns whether examples were picked or reordered to compute it."""
        return self._role(tensor) == _SCATTERED

    def _call(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        tensors = tensors_of(args, kwargs)
        roles = [self._role(tensor) for tensor in tensors]
        content = _content(_name(func), roles)
        scattered = _SCATTERED in content
        per_example = scattered or _PER_EXAMPLE in content
        shared = _SHARED in roles and torch.is_grad_enabled()
        if shared and per_example:
            inside = composite(func, self._tape.grouping.examples)
            if inside is not None:
                with self:
                    return inside(*args, **kwargs)
            call = self._as_call(func, args, kwargs, tensors, roles)
            if scattered:
                raise call.refuse(
                    "on examples that were picked by their content, or put in another order"
                )
            result = combine(call)
            self._mark(result, _PER_EXAMPLE)
            return result
        result = func(*args, **kwargs)
        role = _PER_EXAMPLE if per_example else _SHARED if shared else _CONSTANT
        if scattered or (per_example and reorders(_name(func), args, kwargs, self._is_per_example)):
            role = _SCATTERED
            self.moved += [t for t, k in zip(tensors, roles, strict=True) if k == _PER_EXAMPLE]
        if role != _CONSTANT and tensors and _changes_first(func):
            self._mark((tensors[0], tensors[0]._base), role)
        self._mark(result, role)
        return result

    def _as_call(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[torch.Tensor],
        roles: Sequence[str],
    ) -> Call:
        shared = [t for t, role in zip(tensors, roles, strict=True) if role == _SHARED]
        return Call(
            tape=self._tape,
            func=func,
            args=tuple(args),
            kwargs=dict(kwargs),
            shared=frozenset(map(id, shared)),
            per_example=tuple(t for t, k in zip(tensors, roles, strict=True) if k == _PER_EXAMPLE),
            names=tuple(dict.fromkeys(name for t in shared for name in self._origin(t))),
            again=lambda func, *args, **kwargs: self._call(func, args, kwargs),
        )

    def _role(self, tensor: torch.Tensor) -> str:
        if id(tensor) in self._names:
            return _SHARED
        if id(tensor) in self._constants:
            return _CONSTANT
        mark = getattr(tensor, "_hushdoc_mark", None)
        if mark is not None and mark[0] is self._tape.token:
            return mark[1]
        # The result of something that can't be watched: gradients past the tape are refused.
        return _PER_EXAMPLE if tensor.requires_grad and not tensor.is_leaf else _CONSTANT

    def _is_per_example(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and self._role(value) in (_PER_EXAMPLE, _SCATTERED)

    def _mark(self, result: Any, role: str) -> None:
        for tensor in tensors_of(result):
            if id(tensor) in self._names or id(tensor) in self._constants:
                continue
            differentiable = role != _SHARED or tensor.requires_grad
            tensor._hushdoc_mark = (  # type: ignore[attr-defined]
                self._tape.token,
                role if differentiable else _CONSTANT,
            )

    def _origin(self, tensor: torch.Tensor) -> Iterator[str]:
        # The parameters that a shared tensor was computed from, by name: for messages alone.
        if id(tensor) in self._names:
            yield self._names[id(tensor)]
            return
        for leaf in leaves(tensor):
            if id(leaf) in self._names:
                yield self._names[id(leaf)]


def _content(name: str, roles: Sequence[str]) -> Sequence[str]:
    # The roles of those tensors whose content goes into a function's result.
    if name in _BLANK:
        return roles[1:]
    if name in _LENDING and roles and roles[0] in (_SHARED, _CONSTANT):
        return roles[:1]
    return roles


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", "")


def _changes_first(func: Callable[..., Any]) -> bool:
    name = _name(func)
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.startswith("__i") or name in {"__setitem__", "__set__"}
