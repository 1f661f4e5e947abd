"""Gaussian differential privacy and its central limit theorem: an estimate, never a certificate.

For Poisson-sampled Gaussians the limit theorem gives one number mu that looks like the noise of a
single Gaussian mechanism (Bu, Dong, Long, Su 2020, "Deep Learning with Gaussian Differential
Privacy", arXiv:1911.11607). It is a limit for many steps at small rates and bounds epsilon from
neither side: for two published runs it gives 6.07 and 6.33 where 7.98 holds at delta 1e-5. So it is
reported beside a guarantee, for comparison with papers, and no policy accepts it.

For plain Gaussians mu is exact, and so is the epsilon that follows from it (Balle, Wang 2018,
"Improving the Gaussian Mechanism", arXiv:1805.06530, theorem 8).
"""

from __future__ import annotations

import math

import numpy as np

from hushdoc.accounting.gaussian_mixture import log_tail
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.accounting.normal_form import NormalForm, Product, Step, inverse_square, normal_form
from hushdoc.accounting.rdp import require_delta

_LARGEST_EXPONENT = 700.0


def mu(mechanism: Mechanism) -> float | None:
    """Returns the mu of Gaussian DP, exact for plain Gaussians and a limit for sampled ones.

    Args:
        mechanism: What ran; neighbours differ by adding or removing one record.

    Returns:
        None for what is not made of Gaussians on Poisson samples alone.

    Example:
        >>> from hushdoc.accounting.mechanism import Composed, Gaussian
        >>> mu(Composed(event=Gaussian(noise_multiplier=2.0), count=16))
        2.0
    """
    square = _square(normal_form(mechanism))
    return None if square is None else math.sqrt(square)


def epsilon(mechanism: Mechanism, delta: float) -> float | None:
    """Returns the epsilon that mu implies, which may be too small; None where there is no mu."""
    require_delta(delta)
    found = mu(mechanism)
    return None if found is None else gaussian_epsilon(found, delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Returns the smallest epsilon of one Gaussian whose noise is 1 / mu, by Balle, Wang 2018.

    Args:
        mu: From 0.
        delta: From 0 to 1.

    Example:
        >>> round(gaussian_epsilon(1.0, 1e-5), 3)
        4.377
    """
    if mu == 0 or delta >= 1:
        return 0.0
    if delta <= 0 or math.isinf(mu):
        return math.inf
    goal = math.log(delta)
    if _log_delta(mu, 0.0) <= goal:
        return 0.0
    low, high = 0.0, 1.0
    while _log_delta(mu, high) > goal:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _log_delta(mu, middle) > goal else (low, middle)
    return high


def _log_delta(mu: float, epsilon: float) -> float:
    """Log of P(Z > epsilon / mu - mu / 2) - e^epsilon P(Z > epsilon / mu + mu / 2)."""
    middle = epsilon / mu
    first, second = log_tail(np.asarray([middle - mu / 2, middle + mu / 2])).tolist()
    rest = -math.expm1(min(0.0, epsilon + second - first))
    return float(first) + math.log(rest) if rest > 0 else -math.inf


def _square(form: NormalForm) -> float | None:
    match form:
        case Step(rate=1.0):
            return inverse_square(form.noise)
        case Step(size=1, change="removed"):
            exponent = inverse_square(form.noise)
            if exponent > _LARGEST_EXPONENT:
                return math.inf
            return form.rate**2 * math.expm1(exponent)
        case Product():
            parts = [(_square(part), count) for part, count in form.terms]
            if any(square is None for square, _ in parts):
                return None
            return sum((square or 0.0) * count for square, count in parts)
        case _:
            return None
