"""Watches the inputs of a model: the only place where examples come in.

Clippers tell examples from constants by this alone, never by a tensor's length: a constant may have
as many entries as one batch has examples, and then would be clipped as if each entry were a
record's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Self

import torch
from torch import nn

Visit = Callable[[torch.Tensor], None]


class ModelInputs:
    """Shows every tensor that a model, or a module of it, is handed from outside of the model.

    Used as a context; inside it, a forward pass runs within `watched`. What modules hand to each
    other is not shown, nor what is computed again in a backward pass.
    """

    def __init__(self, model: nn.Module, visit: Visit) -> None:
        """Watches nothing yet."""
        self._model = model
        self._visit = visit
        self._depth = 0
        self._is_watched = False
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        """Begins to watch."""
        for module in self._model.modules():
            self._handles.append(module.register_forward_pre_hook(self._come, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._go))
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        while self._handles:
            self._handles.pop().remove()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Shows what is handed in inside the block."""
        self._depth, self._is_watched = 0, True
        try:
            yield
        finally:
            self._is_watched = False

    def _come(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        del module
        if self._is_watched and not self._depth:
            with torch._C.DisableTorchFunction():
                for tensor in tensors_in((args, kwargs)):
                    self._visit(tensor)
        self._depth += 1

    def _go(self, module: nn.Module, args: Any, output: Any) -> None:
        # Not called where a forward pass ends in an error: then nothing more counts as handed in.
        del module, args, output
        self._depth -= 1


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors in sequences, mappings and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name, None))
