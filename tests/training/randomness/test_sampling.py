from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hushdoc_training.randomness.sampling import SharedCoins, poisson_sample, system_uniforms


def test_records_join_on_independent_coins() -> None:
    generator = np.random.default_rng(0)
    draws = [poisson_sample(40, 0.3, uniforms=generator.random) for _ in range(4000)]
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
    assert len(poisson_sample(50, rate)) == expected
    assert poisson_sample(0, 0.5) == []


def test_system_uniforms_are_uniform_and_never_one() -> None:
    values = system_uniforms(100_000)
    assert 0 <= values.min() <= values.max() < 1
    assert stats.kstest(values, "uniform").statistic < 0.01


def test_processes_with_one_secret_draw_alike_and_others_do_not() -> None:
    secret = bytes(range(32))
    one, other = SharedCoins(secret), SharedCoins(secret)
    first = one(1000)
    assert np.array_equal(first, other(1000))
    assert not np.array_equal(first, one(1000))
    assert not np.array_equal(first, SharedCoins(bytes(32))(1000))
    values = SharedCoins(secret)(100_000)
    assert 0 <= values.min() <= values.max() < 1
    assert stats.kstest(values, "uniform").pvalue > 0.001
