"""Opacus' hooks as a second backend: another implementation, for comparison.

Opacus 1.6 is wrong, without an error, on convolutions whose input is not contiguous, so inputs are
made contiguous here. It is also wrong where an embedding's index has no batch axis, and where a
table's padding index is attended to; it fails on modules that own both parameters and buffers.
`check` finds all of that.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.clipper import Clipper, losses_of_examples
from hushdoc_training.privacy.clipping.contract import ClippedBatch, Losses
from hushdoc_training.privacy.clipping.gradient_terms import kept_examples
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.unwrapped_torch import backward

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class OpacusHooks(Clipper):
    """A clipper on Opacus' hooks: slower and larger than book-keeping, for comparison."""

    def __init__(self, model: nn.Module, *, clipping_norm: float, clipping: str = "flat") -> None:
        """Looks the model over, which must not be sharded."""
        super().__init__(model, clipping_norm=clipping_norm, clipping=clipping)
        if self.placement.sharded:
            raise PrivacyError(
                "Opacus keeps the gradients of all examples for the whole model, and the model is "
                "sharded so that it need not stand whole. Use the backend book-keeping."
            )

    def _add(self, losses: Losses, grouping: Grouping) -> ClippedBatch:
        before = {name: p.grad for name, p in self.placement.parameters.items()}
        for parameter in self.placement.parameters.values():
            parameter.grad = None
        try:
            by_example, gradients = self._by_record(losses, grouping)
        except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise PrivacyError(
                f"Opacus can't handle the model: {type(error).__name__}: {str(error)[:300]} Use "
                "the backend book-keeping."
            ) from error
        finally:
            for name, parameter in self.placement.parameters.items():
                parameter.grad = before[name]
        squares = {name: g.flatten(1).square().sum(1) for name, g in gradients.items()}
        total = torch.stack(list(squares.values())).sum(0)
        factors = self.clipping.factors(grouping.counted(squares, total))
        for name, gradient in gradients.items():
            kept = kept_examples(factors[name])
            chosen = gradient if kept is None else gradient[kept]
            scale = factors[name] if kept is None else factors[name][kept]
            self.sums[name].add_(torch.tensordot(scale, chosen, dims=1))
        return ClippedBatch(
            norms=total.sqrt(),
            losses=by_example.detach(),
            nonfinite=int((~torch.isfinite(total)).sum()),
            squares=squares,
        )

    def _by_record(
        self, losses: Losses, grouping: Grouping
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        with _hooked(self.model):
            by_example = losses_of_examples(losses, grouping.examples)
            backward(grouping.total(by_example))
            names = self.placement.parameters
            return by_example, {
                n: grouping.reduce(self._of_examples(n, grouping.examples)) for n in names
            }

    def _of_examples(self, name: str, examples: int) -> torch.Tensor:
        parameter: Any = self.placement.parameters[name]
        found = getattr(parameter, "grad_sample", None)
        if found is None and parameter.grad is None:
            return parameter.new_zeros((examples, *parameter.shape))
        if not isinstance(found, torch.Tensor) or len(found) != examples:
            raise PrivacyError(
                f"Opacus has no per-example gradient for the parameter '{name}'. Freeze it, or use "
                "the backend book-keeping."
            )
        return found.detach()


@contextmanager
def _hooked(model: nn.Module) -> Iterator[None]:
    # Hooks last for one batch, so that nobody else's forward pass feeds them.
    from opacus.grad_sample import GradSampleHooks

    logging.getLogger("opacus").setLevel(logging.ERROR)
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, _CONVOLUTIONS):
                stack.enter_context(module.register_forward_pre_hook(_contiguous))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hooks = GradSampleHooks(model, batch_first=True, loss_reduction="sum")
            try:
                yield
            finally:
                hooks.cleanup()


def _contiguous(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.contiguous() for tensor in inputs)
