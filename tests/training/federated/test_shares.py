"""Noise in shares: what is left whoever is silent or colludes, and rings that hold every sum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushdoc.errors import PrivacyError
from hushdoc_training.federated.shares import Grid, Shares
from hushdoc_training.metering import Meter
from hushdoc_training.randomness import integer_noise, lattice
from hushdoc_training.randomness.secret_stream import SecretStream

MINILM = {"numbers": 33_415, "clipping_norm": 0.1, "noise_multiplier": 1.9, "expected_records": 75}


def grid(shares: Shares, *, truncated: bool = False, **change: float) -> Grid:
    return Grid.of(shares=shares, truncated=truncated, **{**MINILM, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(("m", "t", "c"), [(16, 1, 2), (8, 1, 1), (2, 0, 1), (5, 0, 0), (7, 2, 2)])
def test_whoever_is_silent_or_colludes_the_noise_is_there(m: int, t: int, c: int) -> None:
    made = grid(Shares(clients=m, silent=t, colluding=c))
    needed = (MINILM["noise_multiplier"] * made.sensitivity) ** 2
    for missing in itertools.combinations(range(m), t + c) if m < 9 else [range(t + c)]:
        left = sum(made.share_deviation**2 for client in range(m) if client not in missing)
        assert needed <= left <= needed * (1 + 1e-9)


def test_the_overhead_of_the_released_noise() -> None:
    found = [
        Shares(clients=m, silent=t, colluding=c).overhead
        for m, t, c in ((16, 1, 2), (8, 1, 1), (2, 0, 1), (16, 0, 0))
    ]
    assert found == pytest.approx([1.11, 1.15, 1.41, 1.0], abs=0.005)


def test_what_is_left_against_more_than_the_shares_allow_for() -> None:
    shares = Shares(clients=16, silent=1, colluding=2)
    assert [shares.against(few) for few in (0, 1, 2)] == [1.0, 1.0, 1.0]
    assert shares.against(5) == math.sqrt(10 / 13)
    assert shares.against(14) == shares.against(15) == shares.alone == math.sqrt(1 / 13)


def test_the_sum_of_shares_has_the_planned_variance() -> None:
    shares = Shares(clients=5, silent=1, colluding=1)
    made, count = grid(shares, numbers=20_000), 20_000
    meter, stream = Meter(planned_steps=1, privacy_unit="document"), SecretStream()
    zero = np.zeros(count, dtype=np.int64)
    total = sum(made.noised(zero, stream, meter) for _ in range(shares.counted))
    planned = (1.9 * made.sensitivity) ** 2
    assert np.mean(np.square(total, dtype=float)) == pytest.approx(
        planned, rel=5 * math.sqrt(2 / count)
    )
    assert total.dtype == np.int64


def test_the_share_that_is_noted_is_the_one_that_is_drawn() -> None:
    made, stream = grid(Shares(clients=4)), SecretStream()
    meter = Meter(planned_steps=3, privacy_unit="document")
    meter.drawn(0.5, stream.origin)
    meter.clipped(0.1)
    meter.divided(75)
    made.noised(np.zeros(9, dtype=np.int64), stream, meter)
    receipt = meter.receipt()
    assert receipt.noise_multiplier == pytest.approx(1.9 / 2, rel=1e-9)
    assert receipt.noise_multiplier * 2 >= 1.9 * (1 - 1e-11)
    with pytest.raises(PrivacyError):  # less noise than in the step before
        grid(Shares(clients=5)).noised(np.zeros(9, dtype=np.int64), stream, meter)


@pytest.mark.parametrize("numbers", [1, 7, 33_415, 22_600_000])
def test_rounding_adds_little_and_is_counted(numbers: int) -> None:
    error = lattice.error_of_sums(records=2 * 75 + lattice.SUMMED_IN_FLOAT32)
    for norm, noise in itertools.product((0.1, 1.0, 3.7), (0.05, 0.7, 30.0)):
        made = grid(Shares(clients=3), numbers=numbers, clipping_norm=norm, noise_multiplier=noise)
        apart = norm / made.step * (1 + error) + math.sqrt(numbers)
        assert made.sensitivity == apart
        assert apart * made.step / norm <= 1 + 1e-3 + error
        assert math.log2(made.step).is_integer()
        assert made.share_width >= integer_noise.LEAST_WIDTH


def test_rounded_sums_of_neighbours_are_no_farther_apart_than_the_sensitivity() -> None:
    """The worst case: a sum just below the middle between two steps, in every coordinate."""
    d = 64
    made = grid(Shares(clients=1), numbers=d)
    unit = np.full(d, 0.1 / math.sqrt(d))
    rest = (np.ceil(unit / made.step) - unit / made.step - 0.5 + 1e-6) * made.step
    moved = np.rint((rest + unit) / made.step) - np.rint(rest / made.step)
    distance = float(np.linalg.norm(moved))
    assert np.linalg.norm(unit) / made.step < distance <= made.sensitivity


def test_units_that_are_cut_off_need_nothing_for_rounding() -> None:
    made = grid(Shares(clients=3), truncated=True)
    assert made.sensitivity == pytest.approx(0.1 / made.step, rel=1e-9)
    assert made.sensitivity >= 0.1 / made.step


def test_no_sum_wraps_in_the_ring() -> None:
    stream = SecretStream()
    for records, bits in ((1, 32), (75, 32), (50_000, 64)):
        shares = Shares(clients=16, silent=1, colluding=2)
        made = grid(shares, numbers=400, expected_records=records)
        assert made.ring_bits == bits
        meter = Meter(planned_steps=1, privacy_unit="document")
        huge = np.full(400, np.iinfo(np.int64).max // 4)
        total = sum(made.noised(huge, stream, meter) for _ in range(16))
        assert np.all(np.abs(total) < 2 ** (made.ring_bits - 1))
        assert made.largest >= records * 0.1 / made.step


def test_clamping_moves_no_neighbour_farther() -> None:
    made, random = grid(Shares(clients=2), noise_multiplier=0.0), np.random.default_rng(1)
    meter = Meter(planned_steps=1, privacy_unit="document")
    for _ in range(20):
        one = random.integers(-2 * made.largest, 2 * made.largest, 50)
        other = one + random.integers(-9, 9, 50)
        left, right = (made.noised(total, SecretStream(), meter) for total in (one, other))
        assert np.linalg.norm(left - right) <= np.linalg.norm(one - other)


@pytest.mark.parametrize(("m", "t", "c"), [(2, 1, 1), (3, 0, 3), (0, 0, 0)])
def test_shares_that_leave_nobody_are_refused(m: int, t: int, c: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        Shares(clients=m, silent=t, colluding=c)


def test_sums_that_no_ring_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="Lower expected_records"):
        grid(Shares(clients=64), numbers=22_600_000, expected_records=10**8)
