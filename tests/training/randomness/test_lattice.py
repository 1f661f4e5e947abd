from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.integer_noise import GREATEST_WIDTH, LEAST_WIDTH
from hushdoc_training.randomness.lattice import DISTRIBUTIONS, Lattice
from hushdoc_training.randomness.secret_stream import SecretStream

NORMS = st.floats(1e-8, 1e8)
NOISES = st.floats(1e-3, 1e6)
NUMBERS = st.integers(1, 10**10)
SEEDS = st.integers(0, 2**32 - 1)


def of_sums(norm: float, noise: float, numbers: int, **changed: object) -> Lattice:
    return lattice.of_sums(
        clipping_norm=norm,
        noise_multiplier=noise,
        numbers=numbers,
        **changed,  # type: ignore[arg-type]
    )


@given(NORMS, NOISES, NUMBERS, st.sampled_from(DISTRIBUTIONS), st.integers(1, 64))
def test_what_is_certified_is_never_above_what_is_drawn(
    norm: float, noise: float, numbers: int, distribution: str, parts: int
) -> None:
    made = of_sums(norm, noise, numbers, distribution=distribution, parts=parts)
    assert noise <= made.noise_multiplier <= noise * (1 + 1e-14)
    assert math.frexp(made.step)[0] == 0.5  # a power of two
    assert made.sensitivity >= norm / made.step + parts * math.sqrt(numbers)
    if noise * parts * math.sqrt(numbers) < 2**38:  # else rounding alone needs more noise
        assert LEAST_WIDTH <= made.width <= GREATEST_WIDTH


@pytest.mark.parametrize(
    "made",
    [
        of_sums(0.01, 6399.219756370606, 20_248),
        of_sums(0.01, 6399.219756370606, 20_248, parts=64),
        lattice.of_truncated(norm=1.0, noise_multiplier=2.0**19 * 1.01),
        lattice.of_truncated(norm=1.0, noise_multiplier=1e9),
    ],
)
def test_however_much_noise_is_planned_it_can_be_drawn(made: Lattice) -> None:
    noise = made.noise(SecretStream(key=bytes(32)), (20_000,))
    assert noise.std() == pytest.approx(made.width, rel=0.05)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("numbers", [1, 50, 33_415, 1_000_000, 22_600_000])
def test_the_lattice_costs_at_most_a_thousandth_of_the_noise(
    numbers: int, distribution: str
) -> None:
    for parts in (1, 8):
        made = of_sums(0.1, 1.3, numbers, distribution=distribution, parts=parts)
        assert 0.13 < made.width * made.step <= 0.13 * 1.001


def test_noise_is_discrete_up_to_a_million_numbers_or_where_it_is_asked_for() -> None:
    assert of_sums(1.0, 1.0, 1_000_000).distribution == "discrete-gaussian"
    assert of_sums(1.0, 1.0, 1_000_001).distribution == "gaussian"
    asked = of_sums(1.0, 1.0, 10**8, distribution="discrete-gaussian")
    assert asked.distribution == "discrete-gaussian"
    with pytest.raises(ValueError, match="noise_distribution"):
        of_sums(1.0, 1.0, 1, distribution="laplace")


@given(NORMS, st.integers(1, 300), st.integers(1, 5), st.integers(0, 200), SEEDS)
def test_rounded_sums_of_neighbours_are_no_further_apart_than_the_sensitivity(
    norm: float, numbers: int, parts: int, others: int, seed: int
) -> None:
    """However the float32 sums of several processes are shared out anew when a record joins."""
    chance = np.random.default_rng(seed)
    records = chance.normal(size=(min(others, 60) + 1, numbers)).astype(np.float32)
    lengths = np.linalg.norm(records.astype(float), axis=1, keepdims=True)
    records = (records * (norm / np.maximum(lengths, 1e-30))).astype(np.float32)
    made = of_sums(norm, 1.0, numbers, parts=parts)

    def rounded(members: np.ndarray) -> np.ndarray:
        total = np.zeros(numbers)
        for part in range(parts):
            share = np.zeros(numbers, dtype=np.float32)
            for member in members[part::parts]:
                share += member
            total += np.rint(share.astype(float) / made.step)
        return total

    apart = np.linalg.norm(rounded(records) - rounded(records[1:]))
    assert apart <= made.sensitivity


@pytest.mark.parametrize(("at_once", "records"), [(64, 128), (64, 1000), (8, 500)])
def test_float32_sums_are_wrong_by_less_than_what_is_allowed(at_once: int, records: int) -> None:
    """Also where all records say the same, so that sums are as long as they can be."""
    chance = np.random.default_rng(3)
    one = chance.normal(size=5000)
    one = (one / np.linalg.norm(one)).astype(np.float32)
    exact, carried = one.astype(float) * records, np.zeros(5000)
    for first in range(0, records, at_once):
        share = np.zeros(5000, dtype=np.float32)
        for _ in range(min(at_once, records - first)):
            share += one
        carried += share
    allowed = at_once * records * 2.0**-24
    assert 0 < 2 * np.linalg.norm(carried - exact) <= allowed
    made = of_sums(1.0, 1.0, 5000, records_at_once=at_once, records=records)
    assert (made.sensitivity - math.sqrt(5000)) * made.step >= 1 + allowed


@pytest.mark.parametrize("drawn", [0, 1, 100, 101, 640, 6399, 6400, 6401, 10**9])
def test_of_more_records_so_few_are_added_at_once_that_the_error_is_no_larger(drawn: int) -> None:
    found = lattice.added_at_once(drawn, at_once=64, records=100)
    assert found == 1 or found * drawn <= 64 * 100 < (found + 1) * drawn or found == 64
    assert 1 <= found <= 64


def test_the_worst_rounding_needs_the_worst_sensitivity() -> None:
    """Sums that lie just on both sides of where they are rounded up: no smaller bound holds."""
    made = of_sums(1.0, 1.0, 10_000)
    almost, more = np.full(10_000, 0.5 - 1e-9), np.full(10_000, 0.5 + 1e-9)
    assert np.linalg.norm(np.rint(more) - np.rint(almost)) == 100
    assert made.sensitivity - 1 / made.step >= 100


@given(NORMS, st.integers(1, 300), SEEDS)
def test_cutting_off_makes_no_norm_larger(norm: float, numbers: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=numbers)
    values *= norm * (1 - 1e-9) / np.linalg.norm(values)
    made = lattice.of_truncated(norm=norm, noise_multiplier=2.0)
    steps = lattice.truncated(values, made.step)
    assert np.array_equal(steps, np.rint(steps))
    assert np.linalg.norm(steps) <= made.sensitivity
    np.testing.assert_allclose(steps * made.step, values, atol=made.step)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_noise_has_the_planned_spread(distribution: str) -> None:
    made = of_sums(0.1, 2.5, 400_000, distribution=distribution)
    noise = made.noise(SecretStream(key=bytes(32)), (400_000,))
    assert noise.std() * made.step == pytest.approx(0.25, rel=0.01)
    assert np.array_equal(noise, np.rint(noise))


def test_noises_that_are_counted_several_times_add_up_on_the_grid() -> None:
    made = lattice.of_truncated(norm=1.0, noise_multiplier=1.5)
    counts = np.array([3, 3, 3, 2, 1])
    stream = SecretStream(key=bytes(32))
    one_by_one = sum(count * made.noise(stream, (200_000,)) for count in counts.tolist())
    at_once = made.added(counts).noise(stream, (200_000,))
    assert np.std(one_by_one) == pytest.approx(at_once.std(), rel=0.01)
    for divisor in (2, 3, 64):
        shares = [np.bincount((n % divisor).astype(int)) / 2e5 for n in (one_by_one, at_once)]
        np.testing.assert_allclose(*shares, atol=0.006)
    for wrong in ([2, 2, 4], [1, 2**18]):
        with pytest.raises(ValueError, match="expected counts from 1"):
            made.added(np.array(wrong))


def test_without_noise_nothing_is_drawn() -> None:
    made = lattice.of_truncated(norm=1.0, noise_multiplier=0.0)
    assert made.noise_multiplier == 0.0
    assert not made.noise(SecretStream(), (5,)).any()
    assert not made.added(np.array([1, 2])).noise(SecretStream(), (5,)).any()
