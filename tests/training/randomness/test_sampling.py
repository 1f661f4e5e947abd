from __future__ import annotations

import pytest

from hushdoc_training.randomness.sampling import poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (1.0, 50)])
def test_boundaries(rate: float, expected: int) -> None:
    stream = SecretStream()
    assert len(poisson_sample(50, rate, stream)) == expected
    assert poisson_sample(0, 0.5, stream) == []
