"""First-order scores: how much of each canary's gradient is in what training did to the weights.

Training by gradients moves the weights by a sum of the gradients of those that it drew, and noise.
To first order the sum's coefficients follow from the move: with the canaries' gradients at the
start as the rows of J, the move is J' x, and x is found from J J' x = J move. Canaries of one
network share directions, so that J move alone would show each of them what the others did. Where
training moves weights not along gradients but along M times these, x is from J M J' x = J move.

J is never formed: J' v is the gradient of a weighted sum of losses, and J d what losses change by
along d. A ridge keeps the noise in directions that hardly any canary has small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from hushdoc_training.audit.binomial import Floats

RIDGE = 0.3
"""Relative to the mean squared norm of a gradient: less follows noise, more the other canaries."""

ITERATIONS = 6
"""Of conjugate gradients; more change who is guessed hardly."""

BATCH = 64
_REACH, _MOST_CHANGE, _TRIES = 1e-2, 0.1, 6

Moves = Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]
"""Returns how weights move by a step along some gradients, by their names: M times these."""

Losses = Callable[[Sequence[int]], torch.Tensor]
"""Returns the losses of some canaries under the model's present weights, shape [canaries]."""


def scores(
    model: nn.Module,
    losses: Losses,
    *,
    count: int,
    moved: Mapping[str, torch.Tensor],
    moves: Moves = dict,
) -> Floats:
    """Returns how much each canary was trained on, in a unit that all of them share.

    All are 0 where nothing moved, or to where no number is: these weights tell nothing apart.

    Args:
        model: At the weights that training began with, and in eval mode.
        losses: Of the canaries by their numbers, each of its own alone, without mixed precision.
        count: How many canaries there are.
        moved: The weights at the start minus those at the end, by their names.
        moves: How training moved weights by their gradients; along them where nobody says.
    """
    sizes = [float(value.abs().max()) for value in moved.values()]
    size = max(sizes, default=0.0)
    if size == 0.0 or not all(map(math.isfinite, sizes)):
        return np.zeros(count)
    # As far as 1, whatever the learning rate was: squares of much longer ways are no numbers.
    moved = {name: value / size for name, value in moved.items()}
    tangent = _Tangent(model, losses, count, moved)
    signs = torch.randint(0, 2, (count,), generator=torch.Generator().manual_seed(0)) * 2.0 - 1

    def ways(gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        found = moves(dict(zip(moved, gradients, strict=True)))
        return [found[name] for name in moved]

    gradients = tangent.gradient(signs)
    pairs = zip(gradients, ways(gradients), strict=True)
    ridge = RIDGE * sum(float((one.double() * way).sum()) for one, way in pairs) / count
    found = torch.zeros(count)
    rest = tangent.changes([value.to(tangent.device) for value in moved.values()])
    step, square = rest.clone(), float(rest @ rest)
    for _ in range(ITERATIONS):
        if square == 0.0:
            break
        image = tangent.changes(ways(tangent.gradient(step))) + ridge * step
        length = square / float(step @ image)
        found += length * step
        rest = rest - length * image
        square, before = float(rest @ rest), square
        step = rest + square / before * step
    return size * found.double().numpy()


class _Tangent:
    """The losses' derivatives at the model's weights, by the parameters that moved."""

    def __init__(
        self, model: nn.Module, losses: Losses, count: int, moved: Mapping[str, torch.Tensor]
    ) -> None:
        self._losses, self._count = losses, count
        model.requires_grad_(False)
        known = dict(model.named_parameters())
        self._parameters = [known[name].requires_grad_(True) for name in moved]
        self._start = [value.detach().clone() for value in self._parameters]
        self.device = self._start[0].device

    def gradient(self, weights: torch.Tensor) -> list[torch.Tensor]:
        """Returns the gradient of the weighted sum of all losses."""
        total = [torch.zeros_like(value) for value in self._start]
        for part in self._parts():
            loss = (self._losses(part) * weights[part.start : part.stop].to(self.device)).sum()
            found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
            for value, gradient in zip(total, found, strict=True):
                if gradient is not None:
                    value += gradient
        return total

    def changes(self, direction: Sequence[torch.Tensor]) -> torch.Tensor:
        """Returns by how much each loss changes along a direction, by central differences."""
        size = self.square_norm(direction) ** 0.5
        if size == 0.0:
            return torch.zeros(self._count)
        reach = _REACH * self.square_norm(self._start) ** 0.5 / size
        for _ in range(_TRIES):
            found = self._at(direction, reach) - self._at(direction, -reach)
            if float(found.abs().max()) <= _MOST_CHANGE:
                break
            reach *= max(1e-2, 0.5 * _MOST_CHANGE / float(found.abs().max()))
        self._at(direction, 0.0, measure=False)
        return found / (2 * reach)

    @staticmethod
    def square_norm(values: Sequence[torch.Tensor]) -> float:
        """Returns the sum of all squares."""
        return sum(float(value.double().square().sum()) for value in values)

    def _parts(self) -> list[range]:
        return [
            range(first, min(first + BATCH, self._count)) for first in range(0, self._count, BATCH)
        ]

    @torch.no_grad()
    def _at(
        self, direction: Sequence[torch.Tensor], reach: float, *, measure: bool = True
    ) -> torch.Tensor:
        """Returns the losses some way off, and leaves the weights there."""
        for value, start, way in zip(self._parameters, self._start, direction, strict=True):
            value.copy_(start).add_(way, alpha=reach)
        parts = self._parts() if measure else []
        return torch.cat([self._losses(part).cpu() for part in parts]) if parts else torch.zeros(0)
