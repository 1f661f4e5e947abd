"""A call that combines a parameter with examples, and what the rules do to its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.functions import Tap
from hushdoc_training.privacy.clipping.tape import Tape, Target


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function about to be called, and which of its arguments are the same for all examples."""

    tape: Tape
    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shared: frozenset[int]
    per_example: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    again: Callable[..., Any]

    @property
    def name(self) -> str:
        """What torch calls the function."""
        return getattr(self.func, "__name__", str(self.func))

    @property
    def in_place(self) -> bool:
        """Whether it changes its first argument."""
        return self.name.startswith("__i") or (self.name.endswith("_") and self.name[-2] != "_")

    def is_shared(self, value: Any) -> bool:
        """Whether an argument is the same for all examples and wants gradients."""
        return isinstance(value, torch.Tensor) and id(value) in self.shared

    def slot(self, value: Any) -> Target | None:
        """Returns where an argument's gradient goes, None if it wants none."""
        return self.tape.target(value) if self.is_shared(value) else None

    def refuse(self, why: str) -> PrivacyError:
        """Returns the error that names the parameters and the way out."""
        names = ", ".join(f"'{name}'" for name in self.names[:4])
        more = f" and {len(self.names) - 4} more" if len(self.names) > 4 else ""
        return PrivacyError(
            f"The parameter {names}{more} is used by torch's {self.name}, {why}, so its gradient "
            "can't be separated by record. Freeze it, express the layer by linear, "
            "embedding, normalisation, convolution or element-wise operations, or choose the "
            "backend one-by-one, which is exact for any architecture."
        )


def watched(call: Call, x: torch.Tensor) -> tuple[torch.Tensor]:
    """Returns an input as the only argument, tapped if it is shared."""
    return (tapped(call, x, x.dim(), len(x)) if call.is_shared(x) else x,)


def with_taps(call: Call, dimensions: int, batch: int) -> Any:
    """Runs the function with every shared argument tapped."""
    kwargs = {
        name: _with_taps(call, value, dimensions, batch) for name, value in call.kwargs.items()
    }
    return call.func(*_with_taps(call, call.args, dimensions, batch), **kwargs)


def tapped(call: Call, shared: torch.Tensor, dimensions: int, batch: int) -> torch.Tensor:
    """Returns a copy for every entry of the batch, without memory, which reports its gradient."""
    tape, target = call.tape, call.tape.target(shared)
    own_axis = shared.dim() == dimensions and len(shared) == batch and batch > 1
    if shared.dim() == dimensions and len(shared) not in (1, batch):
        raise call.refuse(
            f"where its first axis of {len(shared)} is combined with a batch of {batch}"
        )
    shape = (1,) * (dimensions - shared.dim()) + tuple(shared.shape)
    value = shared.detach().reshape(shape).expand(batch, *shape[1:])
    examples = tape.grouping.examples

    def take(gradient: torch.Tensor) -> None:
        if own_axis:
            tape.add_per_example(target, gradient)
        else:
            by_example = gradient.reshape(examples, -1, *gradient.shape[1:]).sum(
                1, dtype=torch.float32
            )
            tape.add_by_example(target, by_example)

    if own_axis and batch != examples:
        raise call.refuse("where examples of the batch were folded")
    return Tap.apply(tape.anchor, value, take)


def batch_size(call: Call, dimensions: int) -> int:
    """Returns how long the first axis of the per_example arguments is."""
    sizes = {
        len(tensor) for tensor in call.per_example if tensor.dim() == dimensions and dimensions
    }
    sizes -= {1} if len(sizes) > 1 else set()
    if len(sizes) != 1 or next(iter(sizes)) % call.tape.grouping.examples:
        raise call.refuse("where the batch is not the first axis")
    return sizes.pop()


def check_examples(call: Call, x: torch.Tensor) -> None:
    """Refuses an input whose first axis is not the batch's, or a multiple of it."""
    if not x.dim() or len(x) % call.tape.grouping.examples:
        raise call.refuse(
            f"on an input of shape {list(x.shape)} whose first axis is not the batch of "
            f"{call.tape.grouping.examples} examples"
        )


def bound(call: Call, names: tuple[str, ...], defaults: tuple[Any, ...]) -> list[Any]:
    """Returns a call's arguments in the order of these names; builtins have no signature."""
    values: Mapping[str, Any] = dict(zip(names, call.args, strict=False)) | call.kwargs
    optional = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return [values[name] if name in values else optional[name] for name in names]


def tensors_of(*values: Any) -> list[torch.Tensor]:
    """Returns the tensors in arguments, lists and dictionaries of them."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors_of(*value)
        elif isinstance(value, dict):
            found += tensors_of(*value.values())
    return found


def _with_taps(call: Call, value: Any, dimensions: int, batch: int) -> Any:
    # Not a closure: one that calls itself would hold on to activations until garbage is collected.
    if call.is_shared(value):
        return tapped(call, value, dimensions, batch)
    if isinstance(value, list | tuple):
        return type(value)(_with_taps(call, item, dimensions, batch) for item in value)
    return value
