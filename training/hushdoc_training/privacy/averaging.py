"""Average: the mean of the weights that an optimizer's steps left, released in their place.

Each step's weights come of noised gradients alone, so their average is post-processing and spends
nothing. It is kept in the optimizer's state, where a resumed run finds it, and the last step leaves
it as the weights: nobody but the optimizer moves them.
"""

from __future__ import annotations

import torch

from hushdoc import arguments

AVERAGES = ("none", "ema", "half")
"""What is averaged: nothing; all steps, by weights that decay; or the last half of them, alike."""

KEPT = 0.9
"""Share of the exponential average that a step leaves as it was."""

_AVERAGE = "average"


class Average:
    """Averages the weights of an optimizer's parameters over the steps of a plan."""

    def __init__(self, optimizer: torch.optim.Optimizer, kind: str, *, steps: int) -> None:
        """Looks on as the optimizer steps, until `end`.

        Args:
            optimizer: Whose weights; averaging of no kind leaves it as it is.
            kind: One of AVERAGES.
            steps: How many steps there will be.
        """
        arguments.choice(kind, AVERAGES, what="averaging")
        self._optimizer, self._steps, self._number = optimizer, steps, 0
        self._skipped = steps // 2 if kind == "half" else 0
        self._least = 1 - KEPT if kind == "ema" else 0.0
        self._hook = None if kind == "none" else optimizer.register_step_post_hook(self._after)

    def share(self, number: int) -> float:
        """Returns the weight of a step in the average up to it.

        Example:
            >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
            >>> [Average(optimizer, "half", steps=4).share(number) for number in (1, 2, 3, 4)]
            [1.0, 1.0, 1.0, 0.5]
        """
        return max(1 / max(1, number - self._skipped), self._least)

    def begin_step(self, number: int) -> None:
        """Says which step, from 1, the optimizer takes next."""
        self._number = number

    @torch.no_grad()
    def release(self) -> None:
        """Leaves the average as the weights; a second time does nothing."""
        for parameter, state in self._optimizer.state.items():
            if _AVERAGE in state:
                parameter.copy_(state[_AVERAGE])

    def end(self) -> None:
        """Looks on no longer; a second time does nothing."""
        if self._hook is not None:
            self._hook.remove()

    @torch.no_grad()
    def _after(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state[parameter]
                kept = state.setdefault(_AVERAGE, parameter.detach().clone())
                kept.lerp_(parameter, self.share(self._number))
        if self._number == self._steps:
            self.release()
