"""The composition of privacy losses: cumulants and Fourier transform of a whole normal form.

Both follow from the losses of the single steps. Under composition moment generating functions
multiply; an event that runs with a public probability C gives 1 - C + C M. So a form of any depth
needs no convolution before the last inverse transform.

All distributions are tilted by exp(theta * loss) first, which makes the losses near some epsilon
the typical ones. Rounding errors of the transform are then relative to delta, however small it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.dominating import Losses
from hushdoc.accounting.normal_form import SMALLEST, NormalForm, Product, PublicMixture, Step

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
StepLosses = Mapping[Step, Losses]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class Cumulants:
    """Of a tilted loss; `log_moment` is log E[exp(theta * loss)] before it was tilted."""

    log_moment: float
    mean: float
    variance: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """The Fourier transform of a tilted distribution of losses, scaled to a sum of 1.

    `error` bounds that of each value; `log_error` that of the scale's logarithm and of the tilt.
    """

    values: ComplexArray
    error: Array
    log_moment: float
    log_error: float


def cumulants(form: NormalForm, losses: StepLosses, spacing: float, theta: float) -> Cumulants:
    """Returns mean and variance of the losses of a form, tilted by theta."""
    match form:
        case Step():
            return _step_cumulants(losses[form], spacing, theta)
        case Product():
            parts = [(cumulants(part, losses, spacing, theta), n) for part, n in form.terms]
            return Cumulants(
                log_moment=sum(n * part.log_moment for part, n in parts),
                mean=sum(n * part.mean for part, n in parts),
                variance=sum(n * part.variance for part, n in parts),
            )
        case PublicMixture():
            inner = cumulants(form.event, losses, spacing, theta)
            log_moment = _log_mixture(form.rate, inner.log_moment)
            weight = form.rate * math.exp(inner.log_moment - log_moment)
            mean = weight * inner.mean
            variance = weight * (inner.variance + inner.mean**2) - mean**2
            return Cumulants(log_moment=log_moment, mean=mean, variance=max(0.0, variance))
        case _:
            raise TypeError(f"{type(form).__name__} has no single privacy loss distribution.")


def _step_cumulants(losses: Losses, spacing: float, theta: float) -> Cumulants:
    tilted, log_moment = _tilted(losses, spacing, theta)
    at = (losses.first + np.arange(len(tilted))) * spacing
    mean = float(tilted @ at)
    return Cumulants(log_moment=log_moment, mean=mean, variance=float(tilted @ ((at - mean) ** 2)))


def _tilted(losses: Losses, spacing: float, theta: float) -> tuple[Array, float]:
    """A distribution tilted by theta and scaled to a sum of 1, and the logarithm of that scale."""
    if losses.ends is None:
        # All of it lies at infinity, which is counted elsewhere.
        return np.eye(1, len(losses.mass))[0], math.log(SMALLEST)
    exponent = (losses.first + np.arange(len(losses.mass))) * (spacing * theta)
    largest = max(float(exponent[end]) for end in losses.ends)
    found = losses.mass * np.exp(np.minimum(exponent - largest, 0.0))
    total = float(np.sum(found))
    return found / total, largest + math.log(total)


def _log_mixture(rate: float, log_moment: float) -> float:
    if log_moment > 1:
        return float(np.logaddexp(math.log1p(-rate), math.log(rate) + log_moment))
    return math.log1p(rate * math.expm1(log_moment))


def spectrum(
    form: NormalForm, losses: StepLosses, spacing: float, theta: float, length: int
) -> Spectrum:
    """Returns the transform of the distribution of a form's losses on a ring of `length` points."""
    match form:
        case Step():
            return _step_spectrum(losses[form], spacing, theta, length)
        case Product():
            parts = ((spectrum(part, losses, spacing, theta, length), n) for part, n in form.terms)
            return _product_spectrum(parts, length)
        case PublicMixture():
            inner = spectrum(form.event, losses, spacing, theta, length)
            log_moment = _log_mixture(form.rate, inner.log_moment)
            weight = form.rate * math.exp(inner.log_moment - log_moment)
            rest = (1 - form.rate) * math.exp(-log_moment)
            return Spectrum(
                values=rest + weight * inner.values,
                error=weight * inner.error + 4 * _EPS,
                log_moment=log_moment,
                log_error=inner.log_error + 4 * _EPS * (1 + abs(log_moment)),
            )
        case _:
            raise TypeError(f"{type(form).__name__} has no single privacy loss distribution.")


def _step_spectrum(losses: Losses, spacing: float, theta: float, length: int) -> Spectrum:
    tilted, log_moment = _tilted(losses, spacing, theta)
    where = (losses.first + np.arange(len(tilted))) % length
    ring = np.bincount(where, weights=tilted, minlength=length)
    values = np.fft.rfft(ring)
    # Each value is a sum over a tree of log2(length) levels, of terms that sum to 1 in size.
    error = np.full(len(values), 8 * _EPS * math.log2(length))
    exponents = (losses.first + np.arange(len(tilted))) * (spacing * theta)
    # An exponential is off by as much as its exponent is.
    scale = 64 + abs(log_moment) + 4 * float(tilted @ np.abs(exponents))
    return Spectrum(values=values, error=error, log_moment=log_moment, log_error=_EPS * scale)


def _product_spectrum(parts: Iterable[tuple[Spectrum, float]], length: int) -> Spectrum:
    log_size, angle, log_bound, relative = np.zeros((4, length // 2 + 1))
    log_moment = log_error = 0.0
    for part, count in parts:
        size = np.abs(part.values)
        # A complex logarithm takes longer than its two parts.
        log_size += count * np.log(np.maximum(size, 1e-300))
        angle += count * np.angle(part.values)
        size += part.error
        log_bound += count * np.log(size)
        # (x + e)^n - x^n is at most n e (x + e)^(n - 1).
        relative += count * (part.error / size + 8 * _EPS)
        log_moment += count * part.log_moment
        log_error += count * part.log_error
    return Spectrum(
        values=np.exp(np.minimum(log_size, 0.0) + 1j * angle),
        error=np.exp(np.minimum(log_bound, 0.0)) * np.minimum(relative, 2.0),
        log_moment=log_moment,
        log_error=log_error + _EPS * abs(log_moment),
    )
