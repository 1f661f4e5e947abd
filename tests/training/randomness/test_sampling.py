from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hushdoc_training.randomness.sampling import poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream


def test_records_join_on_independent_coins() -> None:
    stream = SecretStream(key=bytes(32))
    draws = [poisson_sample(40, 0.3, stream) for _ in range(4000)]
    sizes = np.array([len(draw) for draw in draws])
    # The size is binomial, not fixed: compare its spread, and test the counts of each record.
    assert sizes.mean() == pytest.approx(12, rel=0.02)
    assert sizes.var() == pytest.approx(40 * 0.3 * 0.7, rel=0.08)
    counts = np.bincount(np.concatenate(draws), minlength=40)
    assert stats.chisquare(counts).pvalue > 0.001
    both = np.mean([0 in draw and 1 in draw for draw in draws])
    assert both == pytest.approx(0.09, abs=0.015)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (1.0, 50)])
def test_boundaries(rate: float, expected: int) -> None:
    stream = SecretStream()
    assert len(poisson_sample(50, rate, stream)) == expected
    assert poisson_sample(0, 0.5, stream) == []
