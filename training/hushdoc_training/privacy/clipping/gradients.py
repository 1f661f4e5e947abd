"""Ordinary gradients, taken one parameter at a time: never all of them in memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.unwrapped_torch import backward

Take = Callable[[str, torch.Tensor], None]
"""Is given a parameter's name and its gradient, which nobody else keeps."""


@contextmanager
def handed_over(parameters: Mapping[str, nn.Parameter], take: Take) -> Iterator[None]:
    """Hands every gradient over as soon as a backward pass inside the block has completed it."""
    before = {name: parameter.grad for name, parameter in parameters.items()}

    def hook(name: str) -> Callable[[torch.Tensor], None]:
        def hand(parameter: torch.Tensor) -> None:
            gradient, parameter.grad = parameter.grad, None
            if gradient is not None:
                with torch.no_grad():
                    take(name, gradient)

        return hand

    for parameter in parameters.values():
        parameter.grad = None
    handles = [p.register_post_accumulate_grad_hook(hook(name)) for name, p in parameters.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for name, parameter in parameters.items():
            parameter.grad = before[name]


def differentiate(
    total: torch.Tensor,
    parameters: Mapping[str, nn.Parameter],
    take: Take,
    *,
    retain_graph: bool = False,
) -> None:
    """Runs one backward pass; every gradient must come in one piece, so that its norm is known."""
    seen: set[str] = set()

    def once(name: str, gradient: torch.Tensor) -> None:
        if name in seen:
            raise PrivacyError(
                f"The gradient of '{name}' came in several pieces, from an activation checkpoint "
                "with use_reentrant=True. Choose use_reentrant=False."
            )
        seen.add(name)
        take(name, gradient)

    with handed_over(parameters, once):
        backward(total, retain_graph=retain_graph)
