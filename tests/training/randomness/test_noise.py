from __future__ import annotations

import math
import os
from collections.abc import Callable

import pytest
import torch
from scipy import stats

from hushdoc.errors import PrivacyError
from hushdoc_training.randomness.noise import NoiseStream
from hushdoc_training.randomness.sampling import SharedCoins


def test_is_normal_with_the_stated_spread() -> None:
    noise = NoiseStream(key=bytes(32)).normal((400_000,), std=2.5)
    # Independent implementation of the distribution: scipy's Kolmogorov-Smirnov test. The key is
    # fixed, so the p-value is too.
    assert stats.kstest(noise.numpy() / 2.5, "norm").pvalue > 0.01
    assert float(noise.std()) == pytest.approx(2.5, rel=0.01)
    assert abs(float(noise.mean())) < 5 * 2.5 / math.sqrt(400_000)


def test_neighbouring_values_and_draws_are_independent() -> None:
    stream = NoiseStream(key=bytes(32))
    first, second = stream.normal((200_000,), std=1.0), stream.normal((200_000,), std=1.0)
    for left, right in (
        (first, second),
        (first[:-1], first[1:]),
        (first[:100_000], first[100_000:]),
    ):
        assert abs(float(torch.corrcoef(torch.stack([left, right]))[0, 1])) < 0.015


def test_every_stream_is_different_unless_a_test_gives_its_key() -> None:
    assert not torch.equal(NoiseStream().normal((8,), std=1.0), NoiseStream().normal((8,), std=1.0))
    key = bytes(range(32))
    one, other = NoiseStream(key=key), NoiseStream(key=key)
    assert torch.equal(one.normal((3, 5), std=1.0), other.normal((3, 5), std=1.0))


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
    stream = NoiseStream()
    stream.normal((3,), std=1.0)

    def draw() -> bytes:
        return stream.normal((8,), std=1.0).numpy().tobytes()

    drawn = [in_a_fork(draw), in_a_fork(draw), draw()]
    assert [len(one) for one in drawn] == [32] * 3
    assert len(set(drawn)) == 3


def test_a_forked_process_never_repeats_the_draw_of_records() -> None:
    coins = SharedCoins(bytes(32))

    def draw() -> bytes:
        try:
            return coins(8).tobytes()
        except PrivacyError as error:
            return str(error).encode()

    assert b"was forked" in in_a_fork(draw)
    assert len(draw()) == 64


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3, 5), (2**21 + 3,)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    noise = NoiseStream(key=bytes(32)).normal(shape, std=1.0)
    assert noise.shape == shape
    assert bool(torch.isfinite(noise).all())
    assert bool((NoiseStream().normal(shape, std=0.0) == 0).all())
