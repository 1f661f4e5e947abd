from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from hushdoc.errors import PrivacyError
from hushdoc_training.randomness.lattice import DISTRIBUTIONS
from hushdoc_training.randomness.secret_stream import Floats, SecretStream


def drawn(
    stream: SecretStream, count: int, *, width: float = 1e6, distribution: str = "discrete-gaussian"
) -> Floats:
    return stream.lattice_noise((count,), width=width, distribution=distribution)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_noise_is_normal_with_the_stated_spread(distribution: str) -> None:
    noise = drawn(SecretStream(key=bytes(32)), 400_000, width=2.5e6, distribution=distribution)
    # Independent implementation of the distribution: scipy's Kolmogorov-Smirnov test. The key is
    # fixed, so the p-value is too.
    assert stats.kstest(noise / 2.5e6, "norm").pvalue > 0.01
    assert float(noise.std()) == pytest.approx(2.5e6, rel=0.01)
    assert abs(float(noise.mean())) < 5 * 2.5e6 / math.sqrt(400_000)
    assert np.array_equal(noise, np.rint(noise))
    assert len(np.unique(noise % 64)) == 64


def test_a_rounded_gaussian_has_the_law_of_a_rounded_one() -> None:
    """Known answer: scipy's normal distribution function between half steps."""
    noise = drawn(SecretStream(key=bytes(32)), 400_000, width=3.7, distribution="gaussian")
    steps = np.arange(-14, 15)
    expected = np.diff(stats.norm.cdf(np.append(steps - 0.5, 14.5) / 3.7)) * len(noise)
    counts = np.array([(noise == step).sum() for step in steps])
    rest = len(noise) - expected.sum()
    found = stats.chisquare([*counts, len(noise) - counts.sum()], [*expected, rest])
    assert found.pvalue > 0.001


def test_a_rounded_gaussian_has_no_minus_zero() -> None:
    """It would show the sign of a zero that it is added to."""
    noise = drawn(SecretStream(key=bytes(32)), 10_000, width=0.3, distribution="gaussian")
    assert (noise == 0).sum() > 5000
    assert not np.signbit(noise[noise == 0]).any()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_neighbouring_values_and_draws_are_independent(distribution: str) -> None:
    stream = SecretStream(key=bytes(32))
    first, second = (drawn(stream, 200_000, distribution=distribution) for _ in range(2))
    for left, right in (
        (first, second),
        (first[:-1], first[1:]),
        (first[:100_000], first[100_000:]),
    ):
        assert abs(np.corrcoef(left, right)[0, 1]) < 0.015


def test_every_stream_is_different_unless_a_test_gives_its_key() -> None:
    assert not np.array_equal(drawn(SecretStream(), 8), drawn(SecretStream(), 8))
    key = bytes(range(32))
    one, other = SecretStream(key=key), SecretStream(key=key)
    assert np.array_equal(drawn(one, 15), drawn(other, 15))


def test_uniforms_are_uniform_and_never_zero() -> None:
    values = SecretStream().uniforms(100_000)
    assert 0 < values.min() <= values.max() <= 1
    assert stats.kstest(values, "uniform").statistic < 0.01


def test_processes_with_one_secret_draw_alike_and_others_do_not() -> None:
    one, other = (SecretStream(key=bytes(range(32))) for _ in range(2))
    first = one.uniforms(1000)
    assert np.array_equal(first, other.uniforms(1000))
    assert not np.array_equal(first, one.uniforms(1000))
    assert not np.array_equal(first, SecretStream(key=bytes(32)).uniforms(1000))


def test_normals_are_normal() -> None:
    values = SecretStream(key=bytes(32)).normals((1000, 200))
    assert stats.kstest(values.ravel(), "norm").pvalue > 0.01


def in_a_fork(draw: Callable[[], bytes]) -> bytes:
    """Returns what a forked process draws."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.write(writing, draw())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        drawn = stream.read()
    os.waitpid(process, 0)
    return drawn


def test_a_forked_process_never_repeats_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    # The operating system's own bytes: those that all tests get would repeat themselves in forks.
    monkeypatch.setattr(os, "urandom", os.getrandom)
    stream = SecretStream()
    drawn(stream, 3)

    def draw() -> bytes:
        return drawn(stream, 8).tobytes()

    found = [in_a_fork(draw), in_a_fork(draw), draw()]
    assert [len(one) for one in found] == [64] * 3
    assert len(set(found)) == 3


def test_a_forked_process_never_repeats_the_draw_of_records() -> None:
    coins = SecretStream(key=bytes(32))

    def draw() -> bytes:
        try:
            return coins.uniforms(8).tobytes()
        except PrivacyError as error:
            return str(error).encode()

    assert b"was forked" in in_a_fork(draw)
    assert len(draw()) == 64


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3, 5), (2**21 + 3,)])
def test_any_shape(shape: tuple[int, ...], distribution: str) -> None:
    stream = SecretStream(key=bytes(32))
    noise = stream.lattice_noise(shape, width=1000.0, distribution=distribution)
    assert noise.shape == shape
    assert bool(np.isfinite(noise).all())
