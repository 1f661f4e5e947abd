"""Ownership: which parameters are trained, and which one optimizer may move them.

A guarantee holds for gradients that were clipped, summed and noised here. So the optimizer holds
exactly the parameters that are trained, nothing else adds to their gradients, and no other
optimizer moves them while they are trained privately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import contract

_OWNERS: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Which `Ownership` a parameter is under. Steps of optimizers that were never given to us can be
seen by a hook on all optimizers alone, and such a hook knows no object of ours."""


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that training changes, by name; a tied one once."""
    for module in model.modules():
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
            raise PrivacyError(
                f"The model is wrapped in {type(module).__name__}, which sums gradients that are "
                "not clipped. Give the model inside it (`.module`), to the loss as well: private "
                "training sums over processes by itself."
            )
    return contract.trainable(model)


def settings_of(optimizer: torch.optim.Optimizer) -> tuple[str, list[dict[str, str]]]:
    """Returns what an optimizer is, and what each of its groups of parameters is set to."""
    plain = (int, float, str, tuple, type(None))
    return type(optimizer).__qualname__, [
        {name: repr(value) for name, value in group.items() if isinstance(value, plain)}
        for group in optimizer.param_groups
    ]


def require_same(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter]) -> None:
    """Raises PrivacyError unless the optimizer holds these parameters and no others."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise PrivacyError(
            "LBFGS computes gradients several times in one step, and a private step has one. Use "
            "Adam or SGD."
        )
    held = {id(value) for group in optimizer.param_groups for value in group["params"]}
    left_out = [name for name, value in parameters.items() if id(value) not in held]
    foreign = len(held - {id(value) for value in parameters.values()})
    if left_out or foreign:
        missing = f"lacks {', '.join(left_out[:3])}" if left_out else "lacks none"
        raise PrivacyError(
            f"The optimizer holds {foreign} parameters that are not trained parameters of the "
            f"model (frozen, or of another model) and {missing}. Make it from `[p for p in "
            "model.parameters() if p.requires_grad]`, after freezing."
        )


def require_untouched(model: nn.Module, parameters: dict[str, nn.Parameter]) -> None:
    """Raises PrivacyError if others have put gradients there, or froze or unfroze a parameter."""
    now = {name for name, value in model.named_parameters() if value.requires_grad}
    if now != set(parameters):
        changed = sorted(now.symmetric_difference(parameters))
        raise PrivacyError(
            f"{len(changed)} parameters were frozen or unfrozen since private training began "
            f"({', '.join(changed[:3])}). Freeze first, then make the optimizer and begin anew."
        )
    touched = [name for name, value in parameters.items() if value.grad is not None]
    if touched:
        raise PrivacyError(
            f"{len(touched)} parameters carry gradients from elsewhere ({', '.join(touched[:3])}). "
            "Gradients that are accumulated outside are neither sampled nor clipped: leave out "
            "`loss.backward()`; a step takes the records it draws, in as many physical batches as "
            "it needs."
        )


class Ownership:
    """The right of one optimizer, while it steps, to move some parameters; of none without one."""

    def __init__(
        self, optimizer: torch.optim.Optimizer | None, parameters: dict[str, nn.Parameter]
    ) -> None:
        """Takes the parameters until `release`; those of another private training are refused."""
        taken = [name for name, value in parameters.items() if value in _OWNERS]
        if taken:
            raise PrivacyError(
                f"{len(taken)} parameters of the model ({some(taken)}) are being trained "
                "privately already, by another PrivateTraining. End that one first: use it in a "
                "`with` block, or call `close()`."
            )
        self._optimizer = optimizer
        self._parameters = list(parameters.values())
        self._names = {id(value): name for name, value in parameters.items()}
        self._stepping = False
        for value in self._parameters:
            _OWNERS[value] = self

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Lets the optimizer step inside the block."""
        self._stepping = True
        try:
            yield
        finally:
            self._stepping = False

    def release(self) -> None:
        """Gives the parameters up; a second time does nothing."""
        for value in self._parameters:
            if _OWNERS.get(value) is self:
                del _OWNERS[value]

    def allows(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this optimizer may step now."""
        return self._stepping and optimizer is self._optimizer

    def owns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this is the optimizer that was given to private training."""
        return optimizer is self._optimizer

    def name(self, parameter: torch.Tensor) -> str:
        """Returns what the model calls a parameter that is owned."""
        return self._names[id(parameter)]


def _refuse_others(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Stops a step that would move privately trained parameters by other gradients."""
    del args, kwargs
    if not _OWNERS:
        return
    held = [value for group in optimizer.param_groups for value in group["params"]]
    owned = [(value, _OWNERS[value]) for value in held if value in _OWNERS]
    taken = [(value, owner) for value, owner in owned if not owner.allows(optimizer)]
    if any(owner.owns(optimizer) for _, owner in taken):
        raise PrivacyError(
            "`optimizer.step()` was called directly, on gradients that nobody clipped or "
            "noised. Call the `step()` of the PrivateTraining instead."
        )
    if taken:
        raise PrivacyError(
            f"A second optimizer ({type(optimizer).__name__}) holds {len(taken)} of the parameters "
            f"that are being trained privately ({some([o.name(v) for v, o in taken])}), and its "
            "steps would be neither noised nor counted. Leave them out of it, or give them to the "
            "optimizer of the PrivateTraining alone."
        )


def some(names: Sequence[str]) -> str:
    """Returns the first three names, and whether there are more, for a message."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


register_optimizer_step_pre_hook(_refuse_others)
