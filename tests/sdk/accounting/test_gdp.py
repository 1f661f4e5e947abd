"""Gaussian DP: exact for plain Gaussians, an estimate for sampled ones that says too little."""

from __future__ import annotations

import math

import pytest
from dp_accounting import gaussian_mechanism
from hushdoc_builders import run_of

from hushdoc.accounting import gdp, pld
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Gaussian,
    HashFill,
    Sequence,
)

mpmath = pytest.importorskip("mpmath")


@pytest.mark.parametrize(
    ("rate", "noise", "said"),
    [(0.2, 0.771484375, 6.07), (1000 / 4149, 0.83251953125, 6.33)],
)
def test_it_says_less_than_what_holds(rate: float, noise: float, said: float) -> None:
    mechanism = run_of(rate, noise, 10)
    assert gdp.epsilon(mechanism, 1e-5) == pytest.approx(said, abs=0.005)
    assert pld.bounds(mechanism, 1e-5).lower > 7.9


@pytest.mark.parametrize("noise", [0.4, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.01])
def test_one_gaussian_is_exact(noise: float, delta: float) -> None:
    found = gdp.gaussian_epsilon(1 / noise, delta)
    expected = gaussian_mechanism.get_epsilon_gaussian(noise, delta)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    with mpmath.workdps(40):
        epsilon, mu = mpmath.mpf(found), 1 / mpmath.mpf(noise)
        exact = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )
    assert float(exact) == pytest.approx(delta, rel=1e-6) or found == 0


def test_mu_is_exact_for_gaussians_and_a_limit_for_samples() -> None:
    assert gdp.mu(Gaussian(noise_multiplier=4.0)) == 0.25
    both = Sequence(events=(Gaussian(noise_multiplier=4.0), Gaussian(noise_multiplier=3.0)))
    assert gdp.mu(both) == pytest.approx(5 / 12)
    found = gdp.mu(run_of(0.01, 2.0, 900))
    assert found == pytest.approx(0.01 * math.sqrt(900 * math.expm1(0.25)))


def test_other_mechanisms_have_none() -> None:
    cluster = ClusterSampled(sampling_rate=0.5, event=Gaussian(noise_multiplier=1.0))
    for mechanism in (cluster, HashFill(rows=1, columns=1), Sequence(events=(cluster,))):
        assert gdp.mu(mechanism) is None
        assert gdp.epsilon(mechanism, 1e-5) is None


def test_boundaries() -> None:
    assert gdp.mu(run_of(0.5, 1.0, 0)) == 0
    assert gdp.epsilon(run_of(0.5, 1.0, 0), 0.0) == 0
    assert gdp.mu(run_of(0.5, 1e-9, 1)) == math.inf
    assert gdp.epsilon(run_of(0.5, 1e-9, 1), 1e-5) == math.inf
    assert gdp.epsilon(Gaussian(noise_multiplier=1.0), 0.0) == math.inf
    assert gdp.epsilon(Gaussian(noise_multiplier=1.0), 1.0) == 0
    assert gdp.epsilon(Gaussian(noise_multiplier=1.0), 0.5) == 0
    with pytest.raises(ValueError, match="delta"):
        gdp.epsilon(Gaussian(noise_multiplier=1.0), -1.0)
