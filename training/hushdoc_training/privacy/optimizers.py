"""Per-record clipping and noise: Opacus' optimizer, fed with exact gradients one record at a time.

A record is whatever the privacy unit says, all chunks of a document for instance. Its gradient is
taken in a backward pass of its own, so it is exact for every architecture, with reused, tied and
broadcast parameters alike; Opacus clips it, sums over the records, and steps once with noise
(DP-Adam, Abadi et al. 2016; PrIeD-KIE, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from opacus.optimizers import DPOptimizer
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.noise import NoiseStream
from hushdoc_training.privacy.plan import PrivacyPlan


class PrivateOptimizer(DPOptimizer):
    """Opacus' optimizer with noise from a cryptographic stream."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        plan: PrivacyPlan,
        *,
        noise: NoiseStream | None = None,
    ) -> None:
        """Wraps a torch optimizer.

        Args:
            optimizer: Adam, say, over the trainable parameters.
            plan: Clipping norm, noise multiplier and divisor.
            noise: The stream to draw from; tests pass their own.
        """
        super().__init__(
            optimizer,
            noise_multiplier=plan.noise_multiplier,
            max_grad_norm=plan.clipping_norm,
            expected_batch_size=plan.expected_records,
        )
        self._noise = noise or NoiseStream()
        self.nonfinite_records = 0

    def add_noise(self) -> None:
        """Adds Gaussian noise of noise_multiplier * clipping_norm to the clipped sum, once."""
        for parameter in self.params:
            noise = self._noise.normal(
                parameter.summed_grad.shape, std=self.noise_multiplier * self.max_grad_norm
            )
            parameter.grad = parameter.summed_grad + noise.to(parameter.device)

    def step_on(
        self, records: Sequence[int], loss_of: Callable[[int], torch.Tensor]
    ) -> list[float]:
        """Takes one private step over these records; none at all is a step of noise alone.

        Args:
            records: The records that sampling drew.
            loss_of: The loss of one record; it must not depend on any other.

        Returns:
            The records' losses: private, for the trainer's eyes only.

        Raises:
            PrivacyError: A trainable parameter gets no gradient at all.
        """
        losses = []
        self.zero_grad(set_to_none=True)
        for record in records:
            loss = loss_of(record)
            loss.backward()
            losses.append(float(loss.detach()))
            self._take_gradients()
            self.signal_skip_step(do_skip=True)
            self.step()
            self.zero_grad(set_to_none=True)
        for parameter in self.params:
            parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))
        self.signal_skip_step(do_skip=False)
        self.step()
        self.zero_grad(set_to_none=True)
        return losses

    def _take_gradients(self) -> None:
        gradients = [parameter.grad for parameter in self.params]
        if any(gradient is None for gradient in gradients):
            raise PrivacyError(
                f"{sum(gradient is None for gradient in gradients)} trainable parameters got no "
                "gradient from a record, so they would collect noise without learning. Freeze "
                "them first, as models.layout.freeze does."
            )
        # A sum of squares is finite only if every number in it is.
        norms = torch.stack([gradient.float().norm() for gradient in gradients])
        finite = bool(torch.isfinite(norms).all())
        self.nonfinite_records += not finite
        for parameter, gradient in zip(self.params, gradients, strict=True):
            kept = gradient if finite else torch.zeros_like(gradient)
            parameter.grad_sample = kept.detach().float().unsqueeze(0)
            parameter.grad = None


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Returns the parameters that training changes.

    Raises:
        PrivacyError: Nothing is trainable, or a batch normalisation would couple records.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise PrivacyError(
                f"The layer '{name}' is a batch normalisation: it mixes records, so clipping one "
                "does not bound its influence. Replace it with GroupNorm or LayerNorm."
            )
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise PrivacyError(
            "Every parameter of the model is frozen, so there is nothing to train. Unfreeze at "
            "least the output layer."
        )
    return parameters
