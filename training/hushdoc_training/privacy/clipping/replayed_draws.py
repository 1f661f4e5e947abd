"""Replays what forward passes of the self-test draw at random, and controls their precision."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from hushdoc_training.randomness import dropout_seeds

_DROPOUTS = {
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.feature_alpha_dropout,
    torch.dropout,
}
_LOWERED = frozenset({torch.bfloat16, torch.float16})
_DEVICES = ("cpu", "cuda")


class ReplayedDraws:
    """The state of every generator that a model may draw from: torch's, NumPy's and Python's.

    Inside the block no other thread takes a private step: its draws would be replayed ones.
    """

    def __init__(self) -> None:
        """Remembers the present state."""
        self._cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        self._states = self._now()

    def __enter__(self) -> Self:
        """Waits for other threads, and remembers the state that they leave."""
        dropout_seeds.DEFAULTS.__enter__()
        self._states = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        """Returns to the state that was remembered."""
        try:
            self.rewind()
        finally:
            dropout_seeds.DEFAULTS.__exit__()

    def rewind(self) -> None:
        """Returns to the state that was remembered: what is drawn next is drawn again."""
        torch.set_rng_state(self._states[0])
        for device, state in enumerate(self._states[1]):
            torch.cuda.set_rng_state(state, device)
        np.random.set_state(self._states[2])  # noqa: NPY002 - a model may draw from it
        random.setstate(self._states[3])

    def drawn(self) -> bool:
        """Returns whether something was drawn since."""
        now = self._now()
        torchs = zip([self._states[0], *self._states[1]], [now[0], *now[1]], strict=True)
        moved = any(not torch.equal(before, after) for before, after in torchs)
        others = zip(self._states[2], now[2], strict=True)
        moved = moved or any(not np.array_equal(before, after) for before, after in others)
        return moved or now[3] != self._states[3]

    def _now(self) -> tuple[torch.Tensor, list[torch.Tensor], Any, Any]:
        cuda = torch.cuda.get_rng_state_all() if self._cuda else []
        numpys = np.random.get_state()  # noqa: NPY002
        return torch.get_rng_state(), cuda, numpys, random.getstate()


class Controlled(TorchFunctionMode):
    """Leaves dropout out, and computes in the tensors' own types where autocast would round."""

    def __init__(self, *, precise: bool, dropout: bool = False) -> None:
        """Begins with nothing seen."""
        super().__init__()
        self.dropout = dropout
        self.precise, self.lowered, self.autocast = precise, False, False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs a function, dropout left out."""
        kwargs = dict(kwargs or {})
        if func in _DROPOUTS and not self.dropout:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention and not self.dropout:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs |= {} if len(args) > 4 else {"dropout_p": 0.0}
        result = self._run(func, args, kwargs)
        if isinstance(result, torch.Tensor) and result.dtype in _LOWERED:
            self.lowered = True
        return result

    def _run(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        on = [device for device in _DEVICES if torch.is_autocast_enabled(device)]
        self.autocast = self.autocast or bool(on)
        if not (on and self.precise):
            return func(*args, **kwargs)
        for device in on:
            torch.set_autocast_enabled(device, False)
        try:
            return func(*args, **kwargs)
        finally:
            for device in on:
                torch.set_autocast_enabled(device, True)
