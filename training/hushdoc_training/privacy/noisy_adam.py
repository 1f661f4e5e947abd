"""NoisyAdam: Adam by noised gradients, whose second moments are not those of the noise.

Where noise outweighs gradients, Adam's second moments are the noise's variance, alike for all
numbers, and what is left is momentum. So here, with s the standard deviation of the noise in each
number of a gradient, a step is lr * m / sqrt(w), and w one of

    corrected   max(v - s**2, a tenth of s**2): without what the noise adds to v on average (Tang,
                Shpilevskiy and Lecuyer: DP-AdamBC, 2024, algorithm 1)
    public      s**2 r: r are second moments of gradients on public documents, in place of v (Li,
                Zaheer, Reddi and Smith: Private Adaptive Optimization with Side Information, 2022,
                who scale by them before noise is added)

m and v are Adam's moments, divided by what they lack in their first steps (Kingma and Ba 2015,
algorithm 1). s follows from the plan and r from public documents, so all of this is post-processing
of noised gradients and spends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

BETAS = (0.9, 0.999)
"""Shares of both moments that a step leaves as they were: Adam's own."""

LEAST = 0.1
"""Floor of a corrected second moment, as a share of the noise's variance."""

LEAST_PUBLIC = 0.01
"""Floor of a public second moment, as a share of the mean of all."""

_PUBLIC = "public"


class NoisyAdam(torch.optim.Optimizer):
    """Adam whose second moments are corrected for noise of a known deviation, or public."""

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        *,
        lr: float,
        deviation: float,
        public: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Begins without moments.

        Args:
            parameters: What is trained.
            lr: Step size.
            deviation: Standard deviation of the noise in each number of a gradient, above 0:
                `PrivacyPlan.noise_deviation`.
            public: Second moments of public gradients, for each parameter one tensor of its shape,
                to any scale: `second_moments`. None for corrected ones.
        """
        super().__init__(parameters, {"lr": lr, "deviation": deviation})
        held = [one for group in self.param_groups for one in group["params"]]
        for parameter, moments in zip(held, relative(public) if public else (), strict=False):
            self.state[parameter][_PUBLIC] = moments.to(parameter)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Moves every parameter that has a gradient."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)

    def _move(self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if "step" not in state:
            state |= {"step": torch.tensor(0.0), "mean": torch.zeros_like(parameter)}
        state["step"] += 1
        first, second = (1 - beta ** float(state["step"]) for beta in BETAS)
        state["mean"].lerp_(gradient, 1 - BETAS[0])
        variance = group["deviation"] ** 2
        if _PUBLIC in state:
            moments = state[_PUBLIC] * variance
        else:
            square = state.setdefault("square", torch.zeros_like(parameter))
            square.lerp_(gradient.square(), 1 - BETAS[1])
            moments = (square / second - variance).clamp(min=LEAST * variance)
        parameter.addcdiv_(state["mean"], moments.sqrt(), value=-group["lr"] / first)


def relative(moments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns second moments, floored, on a scale on which noise moves as far as with ones.

    Noise moves a number by one over the root of its moment: over all numbers the inverses have the
    mean 1. So step sizes mean what they mean for Adam where noise outweighs gradients.

    Example:
        >>> [one.tolist() for one in relative([torch.tensor([3.0]), torch.tensor([1.0])])]
        [[2.0], [0.6666666865348816]]
    """
    whole = torch.cat([one.double().flatten() for one in moments])
    if not (torch.isfinite(whole).all() and bool((whole >= 0).all()) and whole.sum() > 0):
        raise ValueError(
            "Second moments of public gradients are negative, infinite or all zero; expected the "
            "mean squares of gradients that are not."
        )
    least = LEAST_PUBLIC * float(whole.mean())
    scale = float(whole.clamp(min=least).reciprocal().mean())
    return [one.clamp(min=least) * scale for one in moments]


def second_moments(
    parameters: Sequence[torch.nn.Parameter], losses: Iterable[torch.Tensor]
) -> list[torch.Tensor]:
    """Returns the mean squares of the losses' gradients, each of length 1, as clipped ones are.

    Args:
        parameters: What they are of.
        losses: One of each public document, shape [].

    Returns:
        For each parameter a tensor of its shape; zeros where no loss reaches it.
    """
    squares = [torch.zeros_like(parameter) for parameter in parameters]
    count = 0
    for loss in losses:
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        total = sum(float(one.square().sum()) for one in found if one is not None)
        count += 1
        for square, one in zip(squares, found, strict=True):
            if one is not None and total > 0:
                square.add_(one.square() / total)
    return [square / max(1, count) for square in squares]
