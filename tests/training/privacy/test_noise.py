from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from hushdoc_training.privacy.noise import NoiseStream


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


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3, 5), (2**21 + 3,)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    noise = NoiseStream(key=bytes(32)).normal(shape, std=1.0)
    assert noise.shape == shape
    assert bool(torch.isfinite(noise).all())
    assert bool((NoiseStream().normal(shape, std=0.0) == 0).all())
