"""The RDP of a unit that owns several records, against the integral."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hushdoc_builders import run_of, sampled

from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import Gaussian, Grouped
from hushdoc.accounting.sampled_gaussian import grouped_gaussian, sampled_gaussian

mpmath = pytest.importorskip("mpmath")
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def integral(rate: float, noise: float, size: int, order: float, *, with_first: bool) -> float:
    with mpmath.workdps(30):
        q, s = mpmath.mpf(rate), mpmath.mpf(noise)
        weights = [mpmath.binomial(size, b) * q**b * (1 - q) ** (size - b) for b in range(size + 1)]

        def value(x: object) -> object:
            terms = (
                w * mpmath.exp((2 * b * x - b * b) / (2 * s * s)) for b, w in enumerate(weights)
            )
            power = mpmath.mpf(order) if with_first else 1 - mpmath.mpf(order)
            return mpmath.exp(-x * x / (2 * s * s)) * sum(terms) ** power

        points = [
            -30 * s,
            -5 * s,
            0,
            size,
            order * size,
            order * size + 10 * s,
            order * size + 30 * s,
        ]
        moment = mpmath.quad(value, points) / (s * mpmath.sqrt(2 * mpmath.pi))
        return float(mpmath.log(moment) / (mpmath.mpf(order) - 1))


@pytest.mark.parametrize("rate", [1e-3, pytest.param(0.14, marks=pytest.mark.slow), 0.8])
@pytest.mark.parametrize("noise", [0.8, 3.0])
@pytest.mark.parametrize("size", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_no_order_is_below_the_integral(rate: float, noise: float, size: int) -> None:
    orders = (1.25, 2.0, 6.0)
    found = grouped_gaussian(rate, noise, size, orders)
    for order, bound in zip(orders, found, strict=True):
        exact = max(integral(rate, noise, size, order, with_first=way) for way in (True, False))
        assert bound >= exact * (1 - 1e-9)
        if order.is_integer():
            assert bound <= exact * 1.01 + 1e-11


def test_one_record_is_the_sampled_gaussian() -> None:
    orders = tuple(float(order) for order in range(2, 40))
    found = np.asarray(grouped_gaussian(0.1, 1.2, 1, orders))
    assert found == pytest.approx(np.asarray(sampled_gaussian(0.1, 1.2, orders)), rel=1e-6)


def test_it_grows_with_the_size_up_to_the_plain_gaussian() -> None:
    orders = (1.5, 2.0, 8.0, 64.0)
    sizes = [np.asarray(grouped_gaussian(0.2, 2.0, size, orders)) for size in (2, 3, 10, 64)]
    assert all((small <= large).all() for small, large in zip(sizes, sizes[1:], strict=False))
    for size, found in zip((2, 3, 10, 64), sizes, strict=True):
        assert (found <= np.asarray(orders) * size**2 / 8 * (1 + 1e-12)).all()


@pytest.mark.parametrize(("size", "noise"), [(10**6, 1.0), (2, 0.0), (2, 1e-9), (50, 0.01)])
def test_extremes_are_answered_as_if_nothing_were_sampled(size: int, noise: float) -> None:
    plain = Grouped(size=size, event=Gaussian(noise_multiplier=noise))
    grouped = Grouped(size=size, event=sampled(0.5, noise))
    assert rdp.rdp(grouped) == pytest.approx(rdp.rdp(plain))


def test_two_chunks_of_funsd() -> None:
    found = rdp.epsilon(Grouped(size=2, event=run_of(1 / 7, 1.5013, 350)), 1 / 389)
    assert 18.46 < found < 22
    assert math.isfinite(found)
