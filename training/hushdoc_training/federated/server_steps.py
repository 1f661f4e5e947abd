"""Server steps: what a coordinator makes of a round's sum, which has its noise already.

A sum is divided by a public constant, never by who was drawn or took part. No round is without
clients: where none of their units is drawn they send noise all the same, so that weights never tell
by staying that nobody took part (Privacy-aware DocVQA, section 6.2.2, lets the server draw it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from hushdoc.errors import CheckpointError
from hushdoc_training.privacy.stepping import Stepping
from hushdoc_training.privacy.trained_tensors import Weights
from hushdoc_training.randomness.integer_noise import Integers

State = Mapping[str, npt.NDArray[np.float32]]
"""What a coordinator keeps between rounds besides weights: arrays by name, for safetensors."""


class ServerStep(Protocol):
    """What a coordinator does in a round."""

    def apply(self, weights: Weights, total: Integers, number: int) -> Weights:
        """Returns the weights after a round.

        Args:
            weights: Before it, float32, shape [d].
            total: The clients' sum with its noise, in whole steps of the grid, shape [numbers].
            number: Of the round, from 1.
        """

    def state(self) -> State:
        """Returns what later rounds need."""

    def restore(self, state: State) -> None:
        """Goes on from a state; a CheckpointError where it is another step's."""


class ServerAdam:
    """Adam on noised sums over a public divisor (PrIeD-KIE, Algorithm 1, GlobalAdamUpdate).

    Its moments come of noised sums alone, so they spend nothing; the same numbers step a central
    training of the same sums.
    """

    def __init__(
        self,
        numbers: int,
        *,
        lattice_step: float,
        divisor: float,
        learning_rate: Callable[[int], float],
    ) -> None:
        """Begins with no moments.

        Args:
            numbers: How many are trained.
            lattice_step: Size of a step of the grid.
            divisor: A public constant: the expected number of units in a round.
            learning_rate: Returns that of a round, from 1.
        """
        self._worth, self._learning_rate = lattice_step / divisor, learning_rate
        self._weights = nn.Parameter(torch.zeros(numbers))
        self._optimizer = torch.optim.Adam([self._weights], lr=learning_rate(1))
        self._stepping = Stepping({"weights": self._weights}, self._optimizer)

    def apply(self, weights: Weights, total: Integers, number: int) -> Weights:
        """Returns the weights after a round; see `ServerStep.apply`."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate(number)
        with torch.no_grad():
            self._weights.copy_(torch.tensor(weights))
        self._stepping.apply(number, total, worth=self._worth)
        return self._weights.detach().numpy().copy()

    def state(self) -> State:
        """Returns both moments and the number of steps; nothing before the first."""
        return {
            name: value.detach().numpy().copy()
            for name, value in self._optimizer.state[self._weights].items()
        }

    def restore(self, state: State) -> None:
        """Goes on from a state; a CheckpointError where it is another step's."""
        shapes = {name: value.shape for name, value in state.items()}
        of_moments = tuple(self._weights.shape)
        if shapes not in ({}, {"step": (), "exp_avg": of_moments, "exp_avg_sq": of_moments}):
            raise CheckpointError(
                f"The state of the server's step holds {shapes}; expected Adam's step, exp_avg and "
                f"exp_avg_sq of {of_moments[0]} numbers. Restore the coordinator's own folder."
            )
        self._optimizer.state[self._weights] = {
            name: torch.tensor(value) for name, value in state.items()
        }


class MeanUpdate:
    """Adds the sum over a public constant: FL-PROVIDER-DP, and FedAVG-DP with equal weights.

    FL-PROVIDER-DP divides by clients in a round times M, a public number of providers (Algorithm 1
    of Privacy-aware DocVQA, lines 7 and 18); both are in the divisor.
    """

    def __init__(self, *, lattice_step: float, divisor: float) -> None:
        """Keeps what a step of the grid is worth."""
        self._worth = lattice_step / divisor

    def apply(self, weights: Weights, total: Integers, number: int) -> Weights:
        """Returns the weights after a round; see `ServerStep.apply`."""
        del number
        return (weights + total * self._worth).astype(np.float32)

    def state(self) -> State:
        """Returns nothing: no round knows another."""
        return {}

    def restore(self, state: State) -> None:
        """Goes on from a state; a CheckpointError where it is another step's."""
        _require_none(state)


class WeightedMean:
    """Adds the mean change, weighted by numbers of examples: FedAvg (PrIeD-KIE, Algorithm 3).

    The last number of the sum is how many examples all clients of the round have together.
    """

    def __init__(self, *, lattice_step: float) -> None:
        """Keeps the size of a step of the grid."""
        self._step = lattice_step

    def apply(self, weights: Weights, total: Integers, number: int) -> Weights:
        """Returns the weights after a round; the same ones where no client had an example."""
        del number
        return (weights + total[:-1] * (self._step / max(1, int(total[-1])))).astype(np.float32)

    def state(self) -> State:
        """Returns nothing: no round knows another."""
        return {}

    def restore(self, state: State) -> None:
        """Goes on from a state; a CheckpointError where it is another step's."""
        _require_none(state)


def _require_none(state: State) -> None:
    if state:
        raise CheckpointError(
            f"The state of the server's step holds {', '.join(sorted(state))}; expected none for "
            "this algorithm. Restore the coordinator's own folder."
        )
