"""The hockey-stick curve of a composed mechanism near one epsilon, with bounds on every error.

The transform of `spectrum` gives the composed distribution, tilted by theta, at the losses l_j of a
grid: the mass there is distribution_j exp(K - theta l_j). From the top down, with h the spacing,

    R(l_i) = sum over j > i of mass_j exp(-(l_j - l_(i+1))),
    delta(l_i) = delta(l_(i+1)) + (1 - e^-h) R(l_i),

sums of positive terms only; delta is linear in exp(epsilon) between. The transform lives on a ring.
What wraps around it only adds to a pessimistic curve; what lies above the ring is bounded by
Chernoff's inequality, and rounding by the norm of the spectrum's errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushdoc.accounting.normal_form import NormalForm, Product, PublicMixture, Step
from hushdoc.accounting.spectrum import StepLosses, cumulants, spectrum

Array = NDArray[np.float64]

LEFT_OUT = 1e-9
"""Mass of the tilted distribution that the ring may leave out on each side."""

_LARGEST_EXPONENT = 600.0
_TOO_LONG = 2.0**50
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class Ring:
    """The losses that a transform covers: from `first` multiples of the spacing, about `middle`."""

    theta: float
    middle: float
    first: int
    length: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Bounds delta for each epsilon; all but `constant` is in units of exp(log_scale).

    `ratio` is R, and `inside` delta from the mass on the grid, at each loss. `unknown` is the error
    of delta at `middle`, falling as exp(-theta * epsilon), and `constant` that at every loss. A
    lower bound has both subtracted.
    """

    losses: Array
    ratio: Array
    inside: Array
    theta: float
    middle: float
    log_scale: float
    unknown: float
    constant: float
    optimistic: bool

    @property
    def _sign(self) -> float:
        return -1.0 if self.optimistic else 1.0

    def _off(self, epsilon: Array) -> Array:
        # Exponents are at most _LARGEST_EXPONENT at these losses.
        return np.asarray(self._sign * self.unknown * np.exp(self.theta * (self.middle - epsilon)))

    def delta(self, epsilon: float) -> float:
        """Returns the bound on delta; the trivial one below the grid."""
        if len(self.losses) == 0 or epsilon < self.losses[0]:
            return 0.0 if self.optimistic else 1.0
        place = int(np.searchsorted(self.losses, epsilon, side="right"))
        inside = 0.0
        if place < len(self.losses):
            gap = float(self.losses[place]) - epsilon
            below = math.expm1(-gap) * float(self.ratio[place - 1])
            inside = float(self.inside[place]) - below
        scaled = float(inside + self._off(np.asarray(epsilon)))
        found = math.exp(min(0.0, self.log_scale + math.log(scaled))) if scaled > 0 else 0.0
        return min(1.0, max(0.0, found + self._sign * self.constant))

    def epsilon(self, delta: float) -> float:
        """Returns the bound on epsilon at delta above 0: infinity or 0 where there is none."""
        left = delta - self._sign * self.constant
        if left <= 0:
            return math.inf
        if len(self.losses) == 0:
            return 0.0 if self.optimistic else math.inf
        goal = math.exp(min(700.0, math.log(left) - self.log_scale))
        off = self._off(self.losses)
        more = np.flatnonzero(self.inside + off > goal)
        place = int(more[-1]) + 1 if len(more) else 0
        if place == 0:
            return 0.0 if self.optimistic else max(0.0, float(self.losses[0]))
        if place == len(self.losses):
            return max(0.0, float(self.losses[-1])) if self.optimistic else math.inf
        room = goal - float(off[place - 1]) - float(self.inside[place])
        width = float(self.losses[place] - self.losses[place - 1])
        ratio = float(self.ratio[place - 1])
        # Without mass above, no part of the way to the next loss is known to be enough.
        share = min(max(room / ratio, 0.0), -math.expm1(-width)) if ratio > 0 else 0.0
        return max(0.0, float(self.losses[place]) + math.log1p(-share))


def ring(form: NormalForm, losses: StepLosses, spacing: float, theta: float) -> Ring:
    """Returns a ring that covers all but LEFT_OUT of the distribution tilted by theta.

    Where no such ring is known, its length exceeds any memory.
    """
    distribution = cumulants(form, losses, spacing, theta)
    low, high = -math.inf, math.inf
    for step, below, above in _moments(form, losses, spacing, theta):
        high = min(high, (above - math.log(LEFT_OUT)) / step)
        low = max(low, (math.log(LEFT_OUT) - below) / step)
    if not math.isfinite(high - low):
        low, high = 0.0, spacing * _TOO_LONG
    first = math.floor(low / spacing) - 1
    return Ring(
        theta=theta,
        middle=distribution.mean,
        first=first,
        length=_fast_length(math.ceil(high / spacing) + 2 - first),
    )


def _moments(
    form: NormalForm, losses: StepLosses, spacing: float, theta: float
) -> list[tuple[float, float, float]]:
    """Steps, and log E[exp(-step * loss)] and log E[exp(step * loss)] under the tilt."""
    distribution = cumulants(form, losses, spacing, theta)
    deviation = max(math.sqrt(distribution.variance), spacing)
    found = []
    for step in (times / deviation for times in (1.0, 2.0, 4.0, 6.0, 8.0)):
        below, above = (
            cumulants(form, losses, spacing, theta + shift).log_moment - distribution.log_moment
            for shift in (-step, step)
        )
        found.append((step, below, above))
    return found


def _wrapped(form: NormalForm, losses: StepLosses, spacing: float, where: Ring) -> float:
    """Bound on the tilted mass outside of a ring, by Chernoff's inequality."""
    low, high = where.first * spacing, (where.first + where.length) * spacing
    moments = _moments(form, losses, spacing, where.theta)
    under = min(below + step * low for step, below, _ in moments)
    over = min(above - step * high for step, _, above in moments)
    return math.exp(min(0.0, under)) + math.exp(min(0.0, over))


def _fast_length(length: int) -> int:
    """The next even length that is fast for the Fourier transform."""
    power = 1 << max(6, (length - 1).bit_length())
    return power * 3 // 4 if power * 3 // 4 >= length else power


def curve(
    form: NormalForm, losses: StepLosses, spacing: float, where: Ring, *, optimistic: bool = False
) -> Curve:
    """Returns the bound on a form's hockey-stick curve around a ring.

    The ring is that of the pessimistic losses of the form, also where `losses` are optimistic and
    the curve is a lower bound.
    """
    found = spectrum(form, losses, spacing, where.theta, where.length)
    around = np.fft.irfft(found.values, n=where.length)
    multiples = where.first + np.arange(where.length)
    distribution = np.maximum(around[multiples % where.length], 0.0)
    at = multiples * spacing - where.middle
    scaled = at * (1 + where.theta)
    kept = np.abs(scaled) <= _LARGEST_EXPONENT
    beyond = scaled > _LARGEST_EXPONENT
    left_out = float(np.sum(distribution[beyond])) + LEFT_OUT
    ratio, inside = _sums(distribution[kept], at[kept], where.theta, spacing)
    infinite, excess = _constants(form, losses)
    if optimistic:
        left_out = _wrapped(form, losses, spacing, where)
    sign = -1.0 if optimistic else 1.0
    unknown = _rounding(found.values, found.error, where.length) + left_out
    if not np.all(np.isfinite([*inside[:1], unknown, found.log_moment, found.log_error])):
        # What is not a number is no bound, and is left to the trivial one.
        kept = np.zeros_like(kept)
    return Curve(
        losses=multiples[kept] * spacing,
        ratio=ratio,
        inside=inside,
        theta=where.theta,
        middle=where.middle,
        log_scale=found.log_moment - where.theta * where.middle + sign * found.log_error,
        unknown=unknown,
        constant=2 * excess if optimistic else infinite,
        optimistic=optimistic,
    )


def _sums(distribution: Array, at: Array, theta: float, spacing: float) -> tuple[Array, Array]:
    """R and delta at each loss, from the top down."""
    weighted = np.cumsum((distribution * np.exp(-(1 + theta) * at))[::-1])[::-1]
    ratio = np.zeros(len(distribution))
    ratio[:-1] = weighted[1:] * np.exp(at[1:])
    inside = np.cumsum(ratio[::-1])[::-1] * -math.expm1(-spacing)
    return ratio, inside


def _rounding(values: NDArray[np.complex128], error: Array, length: int) -> float:
    """Bound on the sum of all errors of the inverse transform (Cauchy-Schwarz, Parseval)."""
    own = 8 * _EPS * math.log2(length) * np.abs(values)
    return math.sqrt(2 * float(np.sum((error + own) ** 2)))


def _constants(form: NormalForm, losses: StepLosses) -> tuple[float, float]:
    """Mass at infinity of all steps, and mass clipped from them."""
    match form:
        case Step():
            return losses[form].at_infinity, losses[form].excess
        case Product():
            pairs = [(*_constants(part, losses), n) for part, n in form.terms]
            return sum(n * i for i, _, n in pairs), sum(n * e for _, e, n in pairs)
        case PublicMixture():
            infinite, excess = _constants(form.event, losses)
            return form.rate * infinite, form.rate * excess
        case _:
            raise TypeError(f"{type(form).__name__} has no single privacy loss distribution.")
