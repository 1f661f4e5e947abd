"""Shares: how the noise of a sum is divided among clients, and the integers it is added to.

Each of a round's m clients adds a discrete Gaussian of variance (sigma Delta)^2 / (m - t - c).
Whichever t of them fall silent and c of them tell or leave out their noise, what the others have
added is at least what the plan's noise multiplier sigma says. docs/federated.md has the argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from hushdoc import arguments
from hushdoc_training.metering import Meter
from hushdoc_training.randomness import integer_noise, lattice
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.lattice import DISCRETE_GAUSSIAN
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of

_FINENESS = 1000.0
"""The sensitivity is at least so many times what rounding a sum adds to it."""

_DEVIATIONS = 10.0
"""Of the noise, for which the ring has room: beyond them lies less than 1e-22 of it."""

_CLIPPED = 2.0**-40
"""How far a norm that was computed in float64 may lie above the clipping norm, in units of it."""

_LEAST_WIDTH = 2 * integer_noise.LEAST_WIDTH
_MOST = 1 << 52
"""Largest sum (steps) that float64 holds exactly, with room to spare."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How many clients of a round share the noise.

    Attributes:
        clients: Clients of a round, m.
        silent: How many may stay silent, t.
        colluding: How many may tell others their noise or add none, c.
    """

    clients: int
    silent: int = 0
    colluding: int = 0

    def __post_init__(self) -> None:
        """Refuses numbers that leave nobody whose noise counts."""
        arguments.integer(self.clients, what="clients")
        arguments.integer(self.silent, what="silent", least=0)
        arguments.integer(self.colluding, what="colluding", least=0)
        if self.counted < 1:
            raise ValueError(
                f"{self.silent} silent and {self.colluding} colluding of {self.clients} clients "
                "leave nobody whose noise counts; expected fewer, or more clients in a round."
            )

    @property
    def counted(self) -> int:
        """Shares that make up the whole noise, m - t - c."""
        return self.clients - self.silent - self.colluding

    @property
    def overhead(self) -> float:
        """The deviation of the noise where all take part / what is needed."""
        return math.sqrt(self.clients / self.counted)

    @property
    def alone(self) -> float:
        """The deviation of one client's noise / that of the whole."""
        return math.sqrt(1 / self.counted)

    def against(self, listening: int) -> float:
        """Returns the deviation that is left / what is needed, at most 1.

        As many as may stay silent do. A unit's own client is neither silent nor listening where
        there is something to protect.

        Args:
            listening: Other clients whose noise the adversary knows, or which added none.
        """
        honest = max(1, self.clients - self.silent - listening)
        return math.sqrt(min(1.0, honest / self.counted))


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The public grid of a federated sum; everything is in whole steps of it but `step`.

    Attributes:
        step: What one step is worth: a power of two.
        sensitivity: Largest L2 distance between rounded sums of neighbours, Delta.
        share_width: Standard deviation of each client's noise; 0 for none.
        largest: What each coordinate of a client's sum is clamped to, before its noise.
        ring_bits: 32 or 64: integers modulo 2 to this power hold every sum.
    """

    step: float
    sensitivity: float
    share_width: float
    largest: int
    ring_bits: int

    @classmethod
    def of(
        cls,
        *,
        clipping_norm: float,
        noise_multiplier: float,
        numbers: int,
        expected_records: int,
        shares: Shares,
        truncated: bool,
    ) -> Self:
        """Returns the grid of a plan.

        Args:
            clipping_norm: Largest L2 norm of a unit's vector.
            noise_multiplier: Deviation of the noise that has to be left / sensitivity; 0 for none.
            numbers: Length of a vector, d.
            expected_records: Units of a round that one client's sum has room for.
            shares: Who adds noise.
            truncated: Whether units are each cut off towards zero, which makes no norm larger,
                instead of being summed in float32 and rounded once.

        Raises:
            ValueError: No ring has room for such sums.
        """
        arguments.integer(numbers, what="numbers")
        arguments.integer(expected_records, what="expected_records")
        spread = math.sqrt(numbers)
        finest = _FINENESS * spread
        if noise_multiplier:
            finest = max(finest, _LEAST_WIDTH * math.sqrt(shares.counted) / noise_multiplier)
        step = lattice.power_of_two(clipping_norm / finest)
        units = clipping_norm / step
        sensitivity = units * (1 + _CLIPPED)
        if not truncated:
            error = lattice.error_of_sums(records=lattice.most_added(expected_records))
            sensitivity = units * (1 + error) + spread
        width = 0.0
        if noise_multiplier:
            # Each share covers its part of a continuous Gaussian, so any number of them does.
            alone = noise_multiplier * sensitivity * shares.alone
            width = integer_noise.covering(alone * (1 + 2.0**-50))
        largest = math.ceil(units) * expected_records
        reach = shares.clients * (largest + 1) + _DEVIATIONS * width * math.sqrt(shares.clients)
        if reach >= _MOST:
            raise ValueError(
                f"Sums of {shares.clients} clients reach {reach:.3g} steps of the grid; expected "
                f"less than {_MOST:.3g}. Lower expected_records or the noise."
            )
        return cls(
            step=step,
            sensitivity=sensitivity,
            share_width=width,
            largest=largest,
            ring_bits=32 if reach < 2**31 else 64,
        )

    @property
    def share_deviation(self) -> float:
        """Of the continuous Gaussian that hides as much as one client's noise."""
        return integer_noise.covered(self.share_width) if self.share_width else 0.0

    @property
    def share_multiplier(self) -> float:
        """Noise multiplier of one client's noise alone."""
        return self.share_deviation / self.sensitivity

    def noised(self, total: Integers, stream: SecretStream, meter: Meter) -> Integers:
        """Returns a client's sum with its share of the noise: what it may send, once.

        Args:
            total: The sum of its clipped units, in whole steps, shape [d].
            stream: Where the noise comes from.
            meter: Notes what is added, for the client's receipt.
        """
        clamped = np.clip(total, -self.largest, self.largest)
        if not self.share_width:
            return clamped
        meter.noised(
            std=self.share_deviation * self.step,
            sensitivity=self.sensitivity * self.step,
            origin=origin_of(stream),
            distribution=DISCRETE_GAUSSIAN,
        )
        return clamped + integer_noise.integer_noise(stream, total.shape, self.share_width)
