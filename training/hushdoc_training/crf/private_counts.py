"""Private counts: how rare rows are among the records themselves, as the first step of a training.

A step like any other: each record is drawn by its own coin, gives all of its rows the same number,
of an L2 norm of at most the clipping norm, and every one of the R counts gets the noise of the
plan. So it composes with the steps that follow as they do with one another, and what they make of
the noisy counts costs nothing more. Rows that too few records have to stand out from the noise are
rare, whichever they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushdoc_training.crf.chain import Floats, RecordSet
from hushdoc_training.crf.private_fitting import Plan
from hushdoc_training.metering import Meter
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of

FLOOR = 0.02
"""Scale of rows that every record has."""

_DEVIATIONS = 3.0
"""Counts of fewer deviations of the noise say nothing, and none does if none has twice as many."""

_POWER = 2
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """What noisy counts say, and the meter of the training that they are the first step of."""

    scales: Floats  # shape [R]
    meter: Meter


def rarity_scales(data: RecordSet, rows: int, plan: Plan, *, stream: SecretStream) -> Counted:
    """Returns a scale for each row from one step's noisy counts: 1 for rare ones, FLOOR for common.

    Counts that the noise does not leave visible are all equally rare.
    """
    meter = Meter(planned_steps=plan.steps, privacy_unit=data.unit)
    grid = lattice.of_truncated(norm=plan.clipping_norm, noise_multiplier=plan.noise_multiplier)
    counts = noisy_counts(data, rows, plan, grid, meter=meter, stream=stream)
    meter.divided(plan.expected_records)
    least = max(_DEVIATIONS * grid.width, 1.0)
    return Counted(scales=scales_of(counts, least=least), meter=meter)


def scales_of(counts: Floats, *, least: float) -> Floats:
    """Returns a scale for each row from its count; counts of at most `least` are equally rare.

    The square of the logarithm of how much rarer a row is than the most common one, as of inverse
    document frequencies (Sparck Jones 1972), as a share of the largest.

    Example:
        >>> scales_of(np.array([100.0, 10.0, 1.0, 0.0]), least=1.0).tolist()
        [0.02, 0.25, 1.0, 1.0]
    """
    largest = float(counts.max(initial=0.0))
    if largest < 2 * least:
        return np.ones(len(counts))
    rarity = np.log(largest / np.clip(counts, least, largest)) / np.log(largest / least)
    return np.maximum(rarity**_POWER, FLOOR)


def noisy_counts(
    data: RecordSet,
    rows: int,
    plan: Plan,
    grid: lattice.Lattice,
    *,
    meter: Meter,
    stream: SecretStream,
) -> Floats:
    """Returns the count of each row with its noise, in whole steps of the grid."""
    counts = _counted(data, rows, plan, grid, meter=meter, stream=stream)
    meter.noised(
        std=grid.deviation,
        sensitivity=grid.reach,
        origin=origin_of(stream),
        distribution=grid.distribution,
    )
    counts += grid.noise(stream, counts.shape)
    return counts


def _counted(
    data: RecordSet,
    rows: int,
    plan: Plan,
    grid: lattice.Lattice,
    *,
    meter: Meter,
    stream: SecretStream,
) -> Floats:
    """Returns what the drawn records give each row, in whole steps of the grid."""
    meter.drawn(plan.sampling_rate, origin_of(stream))
    meter.clipped(plan.clipping_norm)
    drawn = stream.uniforms(len(data.records)) <= plan.sampling_rate
    counts = np.zeros(rows)
    for number in np.flatnonzero(drawn).tolist():
        own = data.records[number].rows
        each = plan.clipping_norm * (1 - _SLACK) / np.sqrt(max(1, len(own)))
        counts[data.rows[own]] += lattice.truncated(np.full(len(own), each), grid.step)
    return counts
