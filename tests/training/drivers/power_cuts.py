"""The end of a process in the middle of a private step, for tests of what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from private_simulator import known

from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.randomness.secret_stream import SecretStream


class PowerCut(BaseException):
    """Stands for the end of the process."""


def cut_noise(monkeypatch: pytest.MonkeyPatch, *, at: int) -> None:
    """Ends the process at the noise of the n-th step of training the output layer."""
    left = 2 * (at - 1)  # the layer has a weight and a bias

    class Cut(SecretStream):
        def normal_tensor(self, shape: tuple[int, ...], *, std: float) -> torch.Tensor:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut
            return super().normal_tensor(shape, std=std)

    monkeypatch.setattr(PrivateTraining, "_streams", known(noise=Cut()))


@contextmanager
def power_cut(monkeypatch: pytest.MonkeyPatch, *, at: int) -> Iterator[None]:
    """Runs a block whose process ends at the noise of the n-th step."""
    with monkeypatch.context() as patch:
        cut_noise(patch, at=at)
        with pytest.raises(PowerCut):
            yield
