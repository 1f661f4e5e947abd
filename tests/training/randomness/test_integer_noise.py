from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushdoc_training.randomness import integer_noise as module
from hushdoc_training.randomness.integer_noise import integer_noise, level_variances
from hushdoc_training.randomness.secret_stream import SecretStream

DRAWN = 400_000


def law(variance: Fraction) -> dict[int, Decimal]:
    """Returns a discrete Gaussian's probabilities by their definition, to 60 digits."""
    with localcontext(prec=60):
        twice = 2 * Decimal(variance.numerator) / variance.denominator
        reach = math.ceil(15 * math.sqrt(variance))
        weights = {z: (-z * z / twice).exp() for z in range(-reach, reach + 1)}
        total = sum(weights.values())
        return {z: weight / total for z, weight in weights.items()}


def probabilities(variance: Fraction) -> dict[int, Decimal]:
    """Returns what one table draws, read off its thresholds."""
    table = module._table(variance)
    ends = [0, *table.thresholds, 1 << 128]
    with localcontext(prec=60):
        scale = Decimal(1 << 128)
        return {
            table.least + number: Decimal(upper - lower) / scale
            for number, (lower, upper) in enumerate(zip(ends, ends[1:], strict=False))
        }


@pytest.mark.parametrize("width", [8.0, 31.7, 256.0])
def test_a_table_has_the_law_to_128_bits(width: float) -> None:
    variance = Fraction(width) ** 2
    exact, found = law(variance), probabilities(variance)
    assert max(abs(exact[z] - p) for z, p in found.items()) < Decimal(2) ** -126
    assert sum(p for z, p in exact.items() if z not in found) < Decimal(2) ** -126
    assert all(found[z] == found[-z] for z in found)


def test_levels_add_up_to_the_law_of_one_wide_gaussian() -> None:
    variance = Fraction(1500) ** 2
    fine, coarse = map(probabilities, level_variances(variance))
    with localcontext(prec=60):
        # The normal density is what the discrete law is to within exp(-2 pi^2 width^2).
        total = (
            1500 * (2 * Decimal("3.14159265358979323846264338327950288419716939937510582")).sqrt()
        )
        for z in (0, 1, 31, 32, 63, -64, 1500, -1531, 4500):
            exact = (Decimal(-z * z) / (2 * 1500**2)).exp() / total
            found = sum(p * fine.get(z - 64 * y, Decimal(0)) for y, p in coarse.items())
            assert abs(found / exact - 1) < Decimal("1e-30")


@given(st.floats(module.LEAST_WIDTH, module.GREATEST_WIDTH))
def test_variances_of_levels_add_up_to_the_width(width: float) -> None:
    levels = level_variances(Fraction(width) ** 2)
    assert sum(v * 4096**n for n, v in enumerate(levels)) == Fraction(width) ** 2
    # And each level is several times as wide as the multiples that the next fills in.
    for fine, coarse in zip(levels, levels[1:], strict=False):
        harmonic = 1 / (1 / fine + 1 / (4096 * coarse))
        assert harmonic >= (3.5 * 64) ** 2


class Given:
    """Bits that a test chose."""

    def __init__(self, *words: np.ndarray) -> None:
        self._left = list(words)

    def bits(self, count: int) -> np.ndarray:
        word, *self._left = self._left
        assert len(word) == count
        return word


@pytest.mark.parametrize("width", [8.0, 256.0, 1000.0])
def test_sixteen_bits_decide_as_all_128_would(width: float) -> None:
    table = module._table(Fraction(width) ** 2)
    prefixes = np.arange(1 << 16, dtype=np.uint16)
    undecided = np.flatnonzero(table.by_prefix == np.iinfo(np.int16).min)
    rest = np.random.default_rng(1).integers(1 << 62, size=len(undecided), dtype=np.uint64)
    found = table.draw(Given(prefixes.view(np.uint64), rest), len(prefixes)) - table.least
    for prefix in range(0, 1 << 16, 401):
        tail = int(rest[np.searchsorted(undecided, prefix)]) >> 16 if prefix in undecided else 0
        low = (prefix << 112) | (tail << 64)
        assert found[prefix] == sum(threshold <= low for threshold in table.thresholds)


@pytest.mark.parametrize(("low", "above"), [(-1, 0), (0, 1), (1, 1)])
def test_a_tie_is_broken_by_the_last_64_bits(low: int, above: int) -> None:
    table = module._table(Fraction(8) ** 2)
    number = len(table.thresholds) // 2
    threshold = table.thresholds[number]
    prefix, tail = threshold >> 112, (threshold >> 64) & ((1 << 48) - 1)
    words = np.full(1, prefix, dtype=np.uint64)
    last = np.array([(threshold & ((1 << 64) - 1)) + low], dtype=np.uint64)
    found = table.draw(Given(words, np.array([tail << 16], dtype=np.uint64), last), 1)
    assert found[0] - table.least == number + above


def test_draws_follow_the_law() -> None:
    drawn = integer_noise(SecretStream(key=bytes(32)), (DRAWN,), 8.0)
    expected = {z: float(p) * DRAWN for z, p in law(Fraction(64)).items() if p * DRAWN > 20}
    counts = [int((drawn == z).sum()) for z in expected]
    rest = DRAWN - sum(expected.values())
    found = stats.chisquare([*counts, DRAWN - sum(counts)], [*expected.values(), rest])
    assert found.pvalue > 0.001


@pytest.mark.parametrize("width", [8.0, 1023.9, 1024.0, 2.0**20 + 0.5, 2.0**31, 2.0**40])
def test_moments_are_those_of_a_gaussian(width: float) -> None:
    drawn = integer_noise(SecretStream(key=bytes(32)), (DRAWN,), width)
    assert drawn.dtype == np.int64
    scaled = drawn / width
    assert abs(scaled.mean()) < 5 / math.sqrt(DRAWN)
    assert scaled.var() == pytest.approx(1, abs=5 * math.sqrt(2 / DRAWN))
    assert (scaled**4).mean() == pytest.approx(3, abs=5 * math.sqrt(96 / DRAWN))
    assert abs((scaled**3).mean()) < 5 * math.sqrt(15 / DRAWN)
    # The lowest bits are as random as the others.
    assert (drawn & 1).mean() == pytest.approx(0.5, abs=5 / math.sqrt(4 * DRAWN))


def test_draws_are_independent_and_of_any_shape() -> None:
    stream = SecretStream(key=bytes(32))
    first, second = (integer_noise(stream, (200_000,), 5000.0) for _ in range(2))
    for left, right in ((first, second), (first[1:], first[:-1])):
        assert abs(np.corrcoef(left, right)[0, 1]) < 0.012
    for shape in ((), (0,), (1,), (2, 3, 5), (2**15 + 1,)):
        assert integer_noise(stream, shape, 100.0).shape == shape


@pytest.mark.parametrize("width", [7.99, 0.0, -8.0, 2.0**40 * 1.001, math.inf, math.nan])
def test_a_width_that_the_proof_does_not_cover_is_refused(width: float) -> None:
    with pytest.raises(ValueError, match="expected 8 to"):
        integer_noise(SecretStream(), (1,), width)


@pytest.mark.parametrize("width", [8.0, 1234.5, 2.0**39])
def test_integer_noise_is_wide_enough_for_the_gaussian_that_it_stands_for(width: float) -> None:
    wide = module.covering(width)
    assert Fraction(wide) ** 2 - 16 >= Fraction(width) ** 2
    assert module.covered(wide) == pytest.approx(width, rel=1e-14)


def test_rounding_a_gaussian_at_random_makes_the_discrete_one() -> None:
    """Why a continuous Gaussian's epsilon holds: known answer by numerical integration."""
    width, shift = 9.0, 0
    grid = np.arange(-400, 401) / 8
    density = np.exp(-((grid - shift) ** 2) / (2 * (width**2 - 16)))
    outcomes = np.arange(-120, 121)
    weights = np.exp(-((outcomes[:, None] - grid) ** 2) / 32)
    mixed = (weights / weights.sum(0)) @ (density / density.sum())
    exact = np.exp(-(outcomes**2) / (2 * width**2))
    inside = np.abs(outcomes) < 30
    np.testing.assert_allclose(mixed[inside], (exact / exact.sum())[inside], rtol=1e-9)
