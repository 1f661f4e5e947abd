"""Poisson sampling of records: every record joins every step by a random draw of its own.

This is what the accountant assumes. A shuffled pass over the data is not: for the setting that
holds epsilon 7 under Poisson sampling, shuffled batches hold 23.5.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Uniforms(Protocol):
    """A source of uniforms above 0 and up to 1: `SecretStream`, and what tests know instead."""

    def uniforms(self, count: int, /) -> npt.NDArray[np.float64]:
        """Returns the next ones."""
        ...


def poisson_sample(num_records: int, sampling_rate: float, stream: Uniforms) -> list[int]:
    """Returns the records of one step; often more or fewer than expected, sometimes none.

    At most a share of `sampling_rate` of all 53-bit uniforms draws a record: rounding never adds
    any.
    """
    return [int(i) for i in np.flatnonzero(stream.uniforms(num_records) <= sampling_rate)]
