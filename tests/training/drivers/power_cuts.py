"""The end of a process in the middle of a private step, for tests of what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from private_simulator import known

from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.randomness.secret_stream import Floats, SecretStream


class PowerCut(BaseException):
    """Stands for the end of the process."""


def cut_noise(monkeypatch: pytest.MonkeyPatch, *, at: int) -> None:
    """Ends the process at the noise of the n-th step of training the output layer."""
    left = 2 * (at - 1)  # the layer has a weight and a bias

    class Cut(SecretStream):
        def lattice_noise(self, shape: tuple[int, ...], **law: Any) -> Floats:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut
            return super().lattice_noise(shape, **law)

    monkeypatch.setattr(PrivateTraining, "_streams", known(noise=Cut()))


@contextmanager
def power_cut(monkeypatch: pytest.MonkeyPatch, *, at: int) -> Iterator[None]:
    """Runs a block whose process ends at the noise of the n-th step."""
    with monkeypatch.context() as patch:
        cut_noise(patch, at=at)
        with pytest.raises(PowerCut):
            yield
