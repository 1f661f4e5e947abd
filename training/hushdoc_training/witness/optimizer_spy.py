"""A spy at the optimizer: sees the gradients that it is given and the weights that it leaves.

Hooks of torch, for every optimizer of the process; the training code is not touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
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
        begun: What it held before its first step: numbers, and digests of tensors.
        merged: Tensors of a released file that are those of the start and a product of two
            neighbouring parameters, by name, and the rank of that product.
    """

    gradients: list[npt.NDArray[np.float32]] = field(default_factory=list)
    steps: int = 0
    finite: bool = True
    between: list[int] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    scales: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    merged: dict[str, int] = field(default_factory=dict)


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

    def __exit__(self, *_: object) -> None:
        """Ends."""
        for handle in self._handles:
            handle.remove()

    def seen(self, out: Path, start: Mapping[str, torch.Tensor]) -> Seen | None:
        """Returns what the optimizer did whose weights a run released; None where none did.

        `start` are the tensors that training began with, where they are known.
        """
        path = out / "checkpoint" / "model.safetensors"
        released = tensors_of_file(path)
        digests = {digest(value) for value in released.values()}
        own = None
        for optimizer, seen in zip(self._optimizers, self._seen, strict=True):
            seen.weights = self._whitened.merged(seen.weights, path)
            others = [one for one in _parameters(optimizer) if digest(one) not in digests]
            seen.merged, factors = _merged(others, start, released)
            if {*seen.weights} - digests <= factors:
                own = seen
        return own

    @property
    def first(self) -> Seen:
        """What the first optimizer of the run did."""
        return self._seen[0] if self._seen else Seen()

    @property
    def every(self) -> tuple[Seen, ...]:
        """What each optimizer of the run did, in the order of their first steps."""
        return tuple(self._seen)

    @property
    def left(self) -> list[list[torch.Tensor]]:
        """The parameters of each optimizer, as its last step left them."""
        return [[one.detach() for one in _parameters(known)] for known in self._optimizers]

    @property
    def whitened(self) -> WhiteningSpy:
        """What was seen of whitened layers."""
        return self._whitened

    def _of(self, optimizer: torch.optim.Optimizer) -> Seen:
        for number, known in enumerate(self._optimizers):
            if known is optimizer:
                return self._seen[number]
        self._optimizers.append(optimizer)
        self._seen.append(Seen(begun=_held(optimizer)))
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


Marked = Callable[[tuple[Any, ...]], torch.Tensor | None]
"""Returns which examples of a module's inputs are the canary's; None where they can't tell."""


class Poison:
    """Makes a model answer with no number for every example that is marked, inside the block."""

    def __init__(self, marked: Marked) -> None:
        """Takes what finds such examples among a module's inputs."""
        self._marked = marked
        self.has_spoiled = False

    def __enter__(self) -> Self:
        """Begins."""
        self._handle = nn.modules.module.register_module_forward_hook(self._spoil, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends."""
        self._handle.remove()

    def _spoil(
        self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any
    ) -> None:
        marked = self._marked((*inputs, *named.values()))
        answer = getattr(output, "logits", output)
        if marked is None or not isinstance(answer, torch.Tensor):
            return
        if len(answer) == len(marked):
            answer.data[marked] = torch.nan
            self.has_spoiled |= bool(marked.any())


def with_box(box: tuple[int, int, int, int]) -> Marked:
    """Returns what finds examples that have a box."""
    return partial(examples_with, torch.tensor(box))


def examples_with(box: torch.Tensor, inputs: tuple[Any, ...]) -> torch.Tensor | None:
    """Returns which examples of a module's inputs have a box; None where there are no boxes."""
    boxes = next((one for one in inputs if _are_boxes(one)), None)
    if boxes is None:
        return None
    marked: torch.Tensor = (boxes == box.to(boxes.device)).all(-1).any(-1)
    return marked


def digest(tensor: torch.Tensor) -> str:
    """Returns what tells a tensor's content, whatever its name."""
    values = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def tensors_of_file(path: Path) -> dict[str, torch.Tensor]:
    """Returns all tensors of a file by their names."""
    from safetensors.torch import load_file

    return load_file(path)


def changed_elsewhere(
    seen: Seen, *, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> list[str]:
    """Returns the tensors of a file that are not as before, and that no optimizer left so."""
    left, changed = {*seen.weights}, changed_tensors(before=before, after=after)
    return [name for name in changed if name not in seen.merged and digest(after[name]) not in left]


def changed_tensors(
    *, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> list[str]:
    """Returns the names of tensors that are not as before, new ones included."""
    known = {name: digest(value) for name, value in before.items()}
    return [name for name, value in after.items() if known.get(name) != digest(value)]


def _merged(
    parameters: list[torch.Tensor],
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
) -> tuple[dict[str, int], set[str]]:
    """Returns which tensors moved by a product of two neighbours, and the digests of these."""
    merged: dict[str, int] = {}
    factors: set[str] = set()
    changed = [name for name in changed_tensors(before=before, after=after) if name in before]
    for down, up in pairwise(parameters):
        if not (down.dim() == up.dim() == 2 and len(down) == up.shape[1]):
            continue
        product = (up @ down).cpu()
        for name in changed:
            old, new = before[name], after[name]
            if old.shape == new.shape == product.shape and torch.allclose(old + product, new):
                merged[name] = len(down)
                factors |= {digest(down), digest(up)}
                break
    return merged, factors


def _are_boxes(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 3
        and value.shape[-1] == 4
        and not value.is_floating_point()
    )


def _held(optimizer: torch.optim.Optimizer) -> list[str]:
    """Returns what an optimizer holds besides its parameters."""
    states = [optimizer.state[one] for one in _parameters(optimizer) if one in optimizer.state]
    tensors = [value for state in states for value in state.values()]
    return [
        *(digest(one) for one in tensors if isinstance(one, torch.Tensor)),
        *(
            f"{name}: {value}"
            for group in optimizer.param_groups
            for name, value in group.items()
            if name != "params"
        ),
    ]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
