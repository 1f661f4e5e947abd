"""A spy at the optimizer: sees the gradients that it is given and the weights that it leaves.

Hooks of torch, for every optimizer of the process; the training code is not touched.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from hushdoc_training.witness.whitening_spy import WhiteningSpy

KEPT_STEPS = 2
"""Steps whose gradients are kept."""


@dataclass(kw_only=True)
class Seen:
    """What one optimizer was seen to do.

    Attributes:
        gradients: Of the first KEPT_STEPS steps, all parameters in a row, float32.
        steps: How many it took.
        finite: Whether every gradient was.
        between: Steps before which somebody else had moved a parameter.
        weights: Digests of the parameters as the last step left them.
        scales: Digests of what whitened layers scale their inputs by.
    """

    gradients: list[npt.NDArray[np.float32]] = field(default_factory=list)
    steps: int = 0
    finite: bool = True
    between: list[int] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    scales: list[str] = field(default_factory=list)


class OptimizerSpy:
    """Looks on inside a `with` block; `frozen`, optimizers leave all weights as they are."""

    def __init__(self, *, frozen: bool) -> None:
        """Prepares to look."""
        self._frozen = frozen
        self._rates: list[float] = []
        self._handles: list[Any] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._seen: list[Seen] = []
        self._whitened = WhiteningSpy(digest=digest)

    def __enter__(self) -> Self:
        """Begins."""
        self._handles = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
            nn.modules.module.register_module_forward_hook(self._whitened.look),
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends."""
        for handle in self._handles:
            handle.remove()

    def seen(self, out: Path) -> Seen | None:
        """Returns what the optimizer did whose weights a run released; None where none did."""
        path = out / "checkpoint" / "model.safetensors"
        for seen in self._seen:
            seen.weights = self._whitened.merged(seen.weights, path)
        released = {*digests_of_file(path).values()}
        own = [seen for seen in self._seen if {*seen.weights} <= released]
        return own[-1] if own else None

    @property
    def first(self) -> Seen:
        """What the first optimizer of the run did."""
        return self._seen[0] if self._seen else Seen()

    def _of(self, optimizer: torch.optim.Optimizer) -> Seen:
        for number, known in enumerate(self._optimizers):
            if known is optimizer:
                return self._seen[number]
        self._optimizers.append(optimizer)
        self._seen.append(Seen())
        return self._seen[-1]

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        seen, parameters = self._of(optimizer), _parameters(optimizer)
        seen.steps += 1
        if seen.steps > 1 and [digest(one) for one in parameters] != seen.weights:
            seen.between.append(seen.steps)
        gradients = [one.grad for one in parameters if one.grad is not None]
        seen.finite &= all(bool(torch.isfinite(one).all()) for one in gradients)
        if seen.steps <= KEPT_STEPS:
            flat = [one.detach().to("cpu", torch.float32).ravel() for one in gradients]
            seen.gradients.append(torch.cat(flat).numpy().copy())
        if self._frozen:
            self._rates = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = 0.0

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._frozen:
            for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate
        self._of(optimizer).scales = self._whitened.scales
        self._of(optimizer).weights = [digest(one) for one in _parameters(optimizer)]


class Poison:
    """Makes a model answer with no number for every example that has a box, inside the block."""

    def __init__(self, box: tuple[int, int, int, int]) -> None:
        """Names the box."""
        self._box = torch.tensor(box)

    def __enter__(self) -> Self:
        """Begins."""
        self._handle = nn.modules.module.register_module_forward_hook(self._spoil)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends."""
        self._handle.remove()

    def _spoil(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        boxes = next((one for one in inputs if _are_boxes(one)), None)
        if boxes is None or not isinstance(output, torch.Tensor):
            return
        marked = (boxes == self._box.to(boxes.device)).all(-1).any(-1)
        if len(output) == len(marked):
            output.data[marked] = torch.nan


def digest(tensor: torch.Tensor) -> str:
    """Returns what tells a tensor's content, whatever its name."""
    values = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def digests_of_file(path: Path) -> dict[str, str]:
    """Returns the digests of all tensors of a file by their names."""
    from safetensors.torch import load_file

    return {name: digest(tensor) for name, tensor in load_file(path).items()}


def changed_elsewhere(seen: Seen, *, before: Path, after: Path) -> list[str]:
    """Returns the tensors of a file that are not as before, and that no optimizer left so."""
    known, left = digests_of_file(before), {*seen.weights}
    return [
        name
        for name, value in digests_of_file(after).items()
        if value not in left and known.get(name) != value
    ]


def _are_boxes(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 3
        and value.shape[-1] == 4
        and not value.is_floating_point()
    )


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
