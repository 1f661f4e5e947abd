"""Lattice: the public grid on which sums and noise meet, so that no low bit of a sum survives.

Added as floats, noise leaves a sum's last bits standing: they told a record's presence. Here a sum
is rounded to whole steps of a grid, noise is drawn in whole steps, and they are added as integers,
which float64 holds exactly. Whatever is computed afterwards (a division, an average, float32) is a
function of that integer. The grid depends on constants of the plan and the model, never on data.

Rounding a sum once moves each of its d coordinates by at most half a step, so sums of neighbours,
C apart, are at most C + sqrt(d) steps apart: the noise is scaled to that. Records that are each cut
off towards zero before they are summed stay within C, and nothing is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hushdoc import arguments
from hushdoc_training.randomness import integer_noise
from hushdoc_training.randomness.secret_stream import Floats, SecretStream

GAUSSIAN, DISCRETE_GAUSSIAN = DISTRIBUTIONS = ("gaussian", "discrete-gaussian")
"""Laws of noise in steps: a Gaussian that is computed in float64 and rounded, and the discrete
Gaussian, exact also in its tails, which takes some times as long."""

DISCRETE_UP_TO = 1_000_000
"""Numbers that are trained, up to which noise is discrete unless asked otherwise."""

SUMMED_IN_FLOAT32 = 64
"""Records after which a sum in float32 is carried over to float64."""

_ROUNDOFF = 2.0**-24
_CLIPPING_ERROR = 2.0**-12
_SHARES = {GAUSSIAN: 2.0**-12, DISCRETE_GAUSSIAN: 2.0**-20}
"""Most that rounding adds to a sensitivity. In float64 a finer grid would be one on which the
rounding of logarithms and cosines shows."""

_FINEST = 2.0**38
"""Steps of a finer grid than this to a deviation would not be drawn: a power of two makes up to
twice as many of them, and rounding a few more (`integer_noise.GREATEST_WIDTH`)."""

_TRUNCATED = 2.0**20
_WIDE = 8


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """A grid, and the noise that hides one unit on it.

    Attributes:
        step: What one step of the grid is worth: a power of two.
        sensitivity: Largest L2 distance between rounded sums of neighbours, in steps.
        width: Standard deviation of the noise, in steps.
        distribution: One of DISTRIBUTIONS.
    """

    step: float
    sensitivity: float
    width: float
    distribution: str

    @property
    def deviation(self) -> float:
        """Of the continuous Gaussian that hides as much, in the sums' own units."""
        discrete = self.distribution == DISCRETE_GAUSSIAN and self.width
        return (integer_noise.covered(self.width) if discrete else self.width) * self.step

    @property
    def reach(self) -> float:
        """Largest L2 distance between rounded sums of neighbours, in the sums' own units."""
        return self.sensitivity * self.step

    @property
    def noise_multiplier(self) -> float:
        """Of the continuous Gaussian mechanism whose guarantee holds; 0 without noise."""
        return self.deviation / self.reach

    def added(self, counts: npt.NDArray[np.int64]) -> Lattice:
        """Returns the lattice of the sum of independent noises, each counted so often, discrete.

        One of them must be counted once; then the sum is a discrete Gaussian as long as each is
        several times as wide as the largest count.
        """
        if self.width and (counts.min() != 1 or self.width < _WIDE * counts.max()):
            raise ValueError(
                f"Noises counted {counts.min()} to {counts.max()} times do not add up to one on "
                f"the grid; expected counts from 1 to {self.width / _WIDE:.0f}."
            )
        return replace(self, width=self.width * math.sqrt(float(np.square(counts).sum())))

    def noise(self, stream: SecretStream, shape: tuple[int, ...]) -> Floats:
        """Returns noise in whole steps."""
        if not self.width:
            return np.zeros(shape)
        return stream.lattice_noise(shape, width=self.width, distribution=self.distribution)


def of_sums(
    *,
    clipping_norm: float,
    noise_multiplier: float,
    numbers: int,
    distribution: str | None = None,
    parts: int = 1,
    records_at_once: int = SUMMED_IN_FLOAT32,
    records: int = 2 * SUMMED_IN_FLOAT32,
) -> Lattice:
    """Returns the grid for clipped sums of float32 gradients.

    Args:
        clipping_norm: Largest L2 norm of a unit's gradient.
        noise_multiplier: Standard deviation of the noise / sensitivity.
        numbers: How many numbers are trained.
        distribution: One of DISTRIBUTIONS; None decides by DISCRETE_UP_TO.
        parts: Sums that are each rounded before they are added up: one of every process.
        records_at_once: Most records that are added up in float32.
        records: How many records of a step this holds for; of more, fewer are added up at once
            (`added_at_once`).
    """
    if distribution is None:
        distribution = DISCRETE_GAUSSIAN if numbers <= DISCRETE_UP_TO else GAUSSIAN
    arguments.choice(distribution, DISTRIBUTIONS, what="noise_distribution")
    spread = parts * math.sqrt(numbers)
    share = max(
        min(1 / spread, noise_multiplier) * _SHARES[distribution], noise_multiplier / _FINEST
    )
    step = power_of_two(clipping_norm * share)
    error = error_of_sums(records_at_once, records)
    sensitivity = clipping_norm * (1 + error) / step + spread
    return _lattice(step, sensitivity, noise_multiplier, distribution)


def error_of_sums(
    records_at_once: int = SUMMED_IN_FLOAT32, records: int = 2 * SUMMED_IN_FLOAT32
) -> float:
    """Returns how far apart clipped sums of neighbours may be beyond C, in units of C.

    Adding the k-th record in float32 is wrong by at most 2**-24 times the norm of the sum, at
    most k C. So n records at a time, D in all, and two sums that are compared: n D 2**-24 C. What
    norms, factors and products of one record are wrong by has 2**-12 C: allowed for, not proven.
    """
    return _ROUNDOFF * records_at_once * records + _CLIPPING_ERROR


def most_added(expected_records: int, at_once: int = SUMMED_IN_FLOAT32) -> int:
    """Returns how many records of a step are added up as many at once as may be."""
    return 2 * expected_records + at_once


def added_at_once(drawn: int, *, at_once: int, records: int) -> int:
    """Returns how many of the records drawn may be added up in float32, at least 1.

    So many that `error_of_sums` of `at_once` and `records` holds for however many are drawn. One
    alone is added to nothing in float32, and what float64 adds up is off by less than is allowed
    for norms and factors, up to a million records.

    Example:
        >>> [added_at_once(drawn, at_once=64, records=100) for drawn in (100, 101, 6400, 9999)]
        [64, 63, 1, 1]
    """
    return min(at_once, max(1, at_once * records // max(1, drawn)))


def of_truncated(*, norm: float, noise_multiplier: float) -> Lattice:
    """Returns the grid for vectors within a norm that are `truncated` before they are summed.

    Noise on it is discrete.
    """
    share = max(min(1.0, noise_multiplier or 1.0) / _TRUNCATED, noise_multiplier / _FINEST)
    step = power_of_two(norm * share)
    return _lattice(step, norm / step, noise_multiplier, DISCRETE_GAUSSIAN)


def truncated(values: Floats, step: float) -> Floats:
    """Returns values in whole steps, cut off towards zero, which makes no norm larger.

    Example:
        >>> truncated(np.array([0.9, -0.9, 0.3]), 0.25).tolist()
        [3.0, -3.0, 1.0]
    """
    return np.trunc(values / step)


def _lattice(
    step: float, sensitivity: float, noise_multiplier: float, distribution: str
) -> Lattice:
    width = math.nextafter(noise_multiplier * sensitivity * (1 + 2.0**-50), math.inf)
    if not noise_multiplier:
        width = 0.0
    elif distribution == DISCRETE_GAUSSIAN:
        width = integer_noise.covering(width)
    return Lattice(step=step, sensitivity=sensitivity, width=width, distribution=distribution)


def power_of_two(most: float) -> float:
    """Returns the largest power of two that is not above a number."""
    return 2.0 ** math.floor(math.log2(most))
