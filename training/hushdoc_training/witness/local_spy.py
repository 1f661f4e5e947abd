"""A spy at optimizers of local training: lets one record alone move weights.

Hooks of torch, as those of `optimizer_spy`; the training code is not touched.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from hushdoc_training.witness.optimizer_spy import examples_with


class LocalSpy:
    """Inside a `with` block, steps move nothing but after a batch in which an example has a box.

    Plain gradient descent is let alone: central training adds its sums to the weights by it.
    """

    def __init__(self, box: tuple[int, int, int, int]) -> None:
        """Names the box."""
        self._box = torch.tensor(box)
        self._read = False
        self._rates: list[float] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        """Begins."""
        self._handles = [
            nn.modules.module.register_module_forward_hook(self._look, with_kwargs=True),
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        """Ends."""
        for handle in self._handles:
            handle.remove()

    def _look(
        self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any
    ) -> None:
        marked = examples_with(self._box, (*inputs, *named.values()))
        self._read |= marked is not None and bool(marked.any())

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._rates = [group["lr"] for group in optimizer.param_groups]
        if not (self._read or isinstance(optimizer, torch.optim.SGD)):
            for group in optimizer.param_groups:
                group["lr"] = 0.0

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._read = False
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
