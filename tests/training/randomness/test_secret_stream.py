from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from hushdoc.errors import PrivacyError
from hushdoc_training.randomness.secret_stream import SecretStream


def test_is_normal_with_the_stated_spread() -> None:
    noise = SecretStream(key=bytes(32)).normal_tensor((400_000,), std=2.5)
    # Independent implementation of the distribution: scipy's Kolmogorov-Smirnov test. The key is
    # fixed, so the p-value is too.
    assert stats.kstest(noise.numpy() / 2.5, "norm").pvalue > 0.01
    assert float(noise.std()) == pytest.approx(2.5, rel=0.01)
    assert abs(float(noise.mean())) < 5 * 2.5 / math.sqrt(400_000)


def test_neighbouring_values_and_draws_are_independent() -> None:
    stream = SecretStream(key=bytes(32))
    first, second = (
        stream.normal_tensor((200_000,), std=1.0),
        stream.normal_tensor((200_000,), std=1.0),
    )
    for left, right in (
        (first, second),
        (first[:-1], first[1:]),
        (first[:100_000], first[100_000:]),
    ):
        assert abs(float(torch.corrcoef(torch.stack([left, right]))[0, 1])) < 0.015


def test_every_stream_is_different_unless_a_test_gives_its_key() -> None:
    assert not torch.equal(
        SecretStream().normal_tensor((8,), std=1.0), SecretStream().normal_tensor((8,), std=1.0)
    )
    key = bytes(range(32))
    one, other = SecretStream(key=key), SecretStream(key=key)
    assert torch.equal(one.normal_tensor((3, 5), std=1.0), other.normal_tensor((3, 5), std=1.0))


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


def test_arrays_and_tensors_are_the_same_normals() -> None:
    array = SecretStream(key=bytes(32)).normals((3, 5))
    tensor = SecretStream(key=bytes(32)).normal_tensor((3, 5), std=2.0)
    assert np.allclose(2.0 * array, tensor.numpy(), rtol=1e-6, atol=0)


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
    stream.normal_tensor((3,), std=1.0)

    def draw() -> bytes:
        return stream.normal_tensor((8,), std=1.0).numpy().tobytes()

    drawn = [in_a_fork(draw), in_a_fork(draw), draw()]
    assert [len(one) for one in drawn] == [32] * 3
    assert len(set(drawn)) == 3


def test_a_forked_process_never_repeats_the_draw_of_records() -> None:
    coins = SecretStream(key=bytes(32))

    def draw() -> bytes:
        try:
            return coins.uniforms(8).tobytes()
        except PrivacyError as error:
            return str(error).encode()

    assert b"was forked" in in_a_fork(draw)
    assert len(draw()) == 64


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3, 5), (2**21 + 3,)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    noise = SecretStream(key=bytes(32)).normal_tensor(shape, std=1.0)
    assert noise.shape == shape
    assert bool(torch.isfinite(noise).all())
    assert bool((SecretStream().normal_tensor(shape, std=0.0) == 0).all())
