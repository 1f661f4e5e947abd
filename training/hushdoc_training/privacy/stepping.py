"""The stepping half: noise once, a public divisor, and the optimizer.

What is stepped by is a sum in whole steps of a public grid. Central training adds the noise here;
whoever gets a sum that its holders have noised steps by it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from hushdoc_training.metering import Meter
from hushdoc_training.privacy import sharding
from hushdoc_training.privacy.averaging import Average
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.summing import rounded, where_exact
from hushdoc_training.privacy.trained_tensors import parts
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.lattice import Lattice
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of

_BLOCK = 1 << 15
"""Numbers that get noise at once on a CPU: their float64 copies stay in the cache of one core."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What makes a gradient of a clipped sum.

    Attributes:
        lattice: The grid, and the noise on it.
        stream: What noise is drawn from; of several processes the first one's counts.
        group: The processes that train together.
        meter: Notes what is added and divided by.
        divisor: Of the noised sum, a public constant.
        sharded: Whether each process has a shard of the sum to itself.
    """

    lattice: Lattice
    stream: SecretStream
    group: Group
    meter: Meter
    divisor: float
    sharded: bool

    def gradient(self, total: torch.Tensor, parameter: nn.Parameter) -> torch.Tensor:
        """Returns a parameter's gradient: the sum over processes on the lattice, noised, divided.

        The clipped sum `total` is overwritten. Where it is sharded, it is summed already.
        Otherwise each process rounds what it has, and the first adds the noise; whole numbers add
        up to the same in any order.
        """
        lattice, group = self.lattice, self.group
        # In all processes alike, also where the first one alone adds it.
        self.meter.noised(
            std=lattice.deviation,
            sensitivity=lattice.reach,
            origin=origin_of(self.stream),
            distribution=lattice.distribution,
        )
        self.meter.divided(self.divisor)
        total = total.to(where_exact(total))
        if not self.sharded and group.size == 1:
            block = _BLOCK if total.device.type == "cpu" else total.numel()
            for part in total.view(-1).split(block):
                steps = rounded(part, lattice.step).add_(self._drawn(part))
                part.copy_(steps.mul_(lattice.step / self.divisor))
            return sharding.as_gradient(total, parameter)
        steps = rounded(total, lattice.step)
        if self.sharded:
            steps += sharding.agreed(self._drawn(steps), parameter)
        else:
            if group.is_first:
                steps += self._drawn(steps)
            group.sum([steps])
        return sharding.as_gradient(steps.mul_(lattice.step / self.divisor), parameter)

    def _drawn(self, like: torch.Tensor) -> torch.Tensor:
        noise = self.lattice.noise(self.stream, tuple(like.shape))
        return torch.from_numpy(noise).to(like.device)


class Stepping:
    """Steps an optimizer by sums, in every parameter at once."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        optimizer: torch.optim.Optimizer,
        *,
        average: Average | None = None,
        updating: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Keeps what it steps.

        Args:
            parameters: What is stepped, by name.
            optimizer: Over exactly these.
            average: Which average of the weights the last step leaves as the weights.
            updating: Returns what lets the optimizer move them.
        """
        self._parameters, self._optimizer = parameters, optimizer
        self._average, self._updating = average, updating

    def step(self, number: int, gradient: Callable[[str, nn.Parameter], torch.Tensor]) -> None:
        """Takes step number n, from 1, by the gradient of each parameter."""
        try:
            for name, parameter in self._parameters.items():
                parameter.grad = gradient(name, parameter)
            if self._average is not None:
                self._average.begin_step(number)
            with self._updating():
                self._optimizer.step()
        finally:
            for parameter in self._parameters.values():
                parameter.grad = None

    def apply(self, number: int, total: Integers, *, worth: float) -> None:
        """Takes step number n by a sum that has its noise.

        Args:
            number: From 1.
            total: In whole steps of the grid, in a row over all parameters, int64, shape [d].
            worth: What one step of the grid is worth in a gradient: its size / public divisor.
        """
        rows = dict(zip(self._parameters, parts(self._parameters, total), strict=True))

        def gradient(name: str, parameter: nn.Parameter) -> torch.Tensor:
            steps = torch.tensor(rows[name], dtype=torch.float64)
            return steps.mul_(worth).reshape(parameter.shape).to(parameter)

        self.step(number, gradient)
