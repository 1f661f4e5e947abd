"""The normal distribution's tail against high precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushdoc.accounting.gaussian_mixture import log_mills, log_tail

mpmath = pytest.importorskip("mpmath")

POINTS = [-40.0, -5.0, -0.1, 0.0, 0.3, 1.0, 5.9, 6.0, 6.0001, 7.0, 20.0, 300.0]


@pytest.mark.parametrize("x", POINTS)
def test_log_tail_is_that_of_high_precision(x: float) -> None:
    with mpmath.workdps(40):
        expected = float(mpmath.log(mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2))
    assert log_tail(np.asarray([x]))[0] == pytest.approx(expected, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("x", [x for x in POINTS if x >= 0])
def test_log_mills_is_that_of_high_precision(x: float) -> None:
    with mpmath.workdps(60):
        exact = mpmath.mpf(x)
        tail = mpmath.erfc(exact / mpmath.sqrt(2)) / 2
        expected = float(mpmath.log(tail) + exact**2 / 2 + mpmath.log(2 * mpmath.pi) / 2)
    assert log_mills(np.asarray([x]))[0] == pytest.approx(expected, rel=1e-13, abs=1e-14)


def test_the_far_tail_neither_overflows_nor_warns() -> None:
    found = log_mills(np.asarray([1e9, 1e150]))
    assert found.tolist() == pytest.approx([-math.log(1e9), -math.log(1e150)], rel=1e-12)
    assert np.all(np.isfinite(log_tail(np.asarray([1e9, 1e150]))))
