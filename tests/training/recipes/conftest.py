"""What tests of recipes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hushdoc_training.randomness.lattice import Lattice
from hushdoc_training.randomness.secret_stream import SecretStream


@pytest.fixture
def with_noise(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Multiplies the noise of every recipe, which still claims all of it."""
    honest = Lattice.noise

    def change(factor: float) -> None:
        def less(self: Lattice, stream: SecretStream, shape: tuple[int, ...]) -> Any:
            drawn = honest(self, stream, shape)
            return np.rint(factor * drawn).astype(drawn.dtype)

        monkeypatch.setattr(Lattice, "noise", less)

    return change
