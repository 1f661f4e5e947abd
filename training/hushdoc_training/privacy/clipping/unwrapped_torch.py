"""Opens functions of torch's that are written in Python, so that their insides can be watched.

torch asks an active `TorchFunctionMode` once, for the outermost function. What is opened here runs
the same code without that question, so that the functions inside it ask it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from hushdoc.errors import PrivacyError


def opened(func: Any, **replaced: Any) -> Callable[..., Any]:
    """Returns a function that doesn't offer itself to modes, with some of its globals replaced."""
    silent = dict.fromkeys(
        ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"),
        lambda *_: False,
    )
    names = {**func.__globals__, **silent, **replaced}
    result = types.FunctionType(
        func.__code__, names, func.__name__, func.__defaults__, func.__closure__
    )
    result.__kwdefaults__ = func.__kwdefaults__
    return result


def composite(func: Callable[..., Any], examples: int) -> Callable[..., Any] | None:
    """Returns a function that is made of layers, opened up; None for any other."""
    if func is not F.multi_head_attention_forward:
        return None

    def linear(x: torch.Tensor, *parameters: Any) -> torch.Tensor:
        # The attention is written with time first; a batch must come first.
        if x.dim() == 3:
            return F.linear(x.transpose(0, 1), *parameters).transpose(0, 1)
        y = F.linear(x.unflatten(0, (-1, examples)).transpose(0, 1), *parameters)
        return y.transpose(0, 1).flatten(0, 1)

    projections = {
        name: opened(F.__dict__[name], linear=linear)
        for name in ("_in_projection_packed", "_in_projection")
    }
    return opened(func, linear=linear, **projections)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Runs compiled functions as they were written; compiled, they can't be watched."""
    stance = getattr(torch.compiler, "set_stance", None)  # new in torch 2.6
    if stance is None or "torch._dynamo" not in sys.modules:  # nothing was compiled
        yield
        return
    with stance("force_eager"):
        yield


# torch's own would suspend every mode while activation checkpoints run again.
backward: Callable[..., None] = opened(torch.autograd.backward)
_grad: Callable[..., tuple[torch.Tensor | None, ...]] = opened(torch.autograd.grad)


def grad(*args: Any, **kwargs: Any) -> tuple[torch.Tensor | None, ...]:
    """Returns gradients as `torch.autograd.grad`; part of an activation checkpoint is refused."""
    try:
        return _grad(*args, **kwargs)
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise PrivacyError(
            "The model uses an activation checkpoint with use_reentrant=True, whose backward pass "
            "can't be taken apart by record. Choose use_reentrant=False."
        ) from error
