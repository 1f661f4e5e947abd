"""NoisyAdam: its steps by hand, what noise alone does to them, and its bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import DIVISOR, flat, make_plan, small_model, training
from torch import nn

from hushdoc_training.privacy import noisy_adam
from hushdoc_training.privacy.noisy_adam import LEAST, LEAST_PUBLIC, NoisyAdam
from hushdoc_training.randomness.secret_stream import SecretStream


def by_hand(
    gradients: np.ndarray, *, rate: float, deviation: float, public: np.ndarray | None = None
) -> np.ndarray:
    """Returns how weights move from zero: algorithm 1 of DP-AdamBC, or with moments that stay."""
    weights = mean = square = np.zeros(gradients.shape[1])
    for number, gradient in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        hat = square / (1 - 0.999**number)
        wanted = np.maximum(hat - deviation**2, 0.1 * deviation**2)
        if public is not None:
            wanted = deviation**2 * public
        weights = weights - rate * mean / (1 - 0.9**number) / np.sqrt(wanted)
    return weights


def stepped(gradients: np.ndarray, **settings: Any) -> np.ndarray:
    weights = nn.Parameter(torch.zeros(gradients.shape[1], dtype=torch.float64))
    optimizer = NoisyAdam([weights], **settings)
    for gradient in gradients:
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
    return weights.detach().numpy()


def noised(steps: int = 40, numbers: int = 200, *, deviation: float = 0.3) -> np.ndarray:
    generator = np.random.default_rng(3)
    means = np.linspace(0, 3 * deviation, numbers)
    return means + deviation * generator.standard_normal((steps, numbers))


@pytest.mark.parametrize("public", [None, np.linspace(0.5, 2, 200)])
def test_steps_are_those_of_the_formula(public: np.ndarray | None) -> None:
    gradients, settings = noised(), {"deviation": 0.3}
    moments = None if public is None else [torch.from_numpy(public)]
    found = stepped(gradients, lr=0.05, public=moments, **settings)
    scaled = None if public is None else public * (1 / public).mean()
    expected = by_hand(gradients, rate=0.05, public=scaled, **settings)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_without_noise_corrected_moments_are_adams() -> None:
    gradients = noised()
    weights = nn.Parameter(torch.zeros(200, dtype=torch.float64))
    adam = torch.optim.Adam([weights], lr=0.05)
    for gradient in gradients:
        weights.grad = torch.from_numpy(gradient)
        adam.step()
    found = stepped(gradients, lr=0.05, deviation=1e-9)
    np.testing.assert_allclose(found, weights.detach().numpy(), rtol=1e-5)


def test_the_noise_adds_nothing_to_a_corrected_moment_on_average() -> None:
    """Gradients of 1 in noise of 1: Adam's own moments say 2, corrected ones 1."""
    gradients = 1 + np.random.default_rng(5).standard_normal((400, 50))
    own = stepped(gradients, lr=0.01, deviation=1e-9)
    corrected = stepped(gradients, lr=0.01, deviation=1.0)
    assert (corrected / own).mean() == pytest.approx(math.sqrt(2), rel=0.1)


def test_a_moment_below_the_noises_is_floored() -> None:
    small = np.full((1, 4), 1e-9)
    np.testing.assert_allclose(
        stepped(small, lr=1.0, deviation=0.5), -small[0] / (0.5 * math.sqrt(LEAST))
    )
    moments = [torch.tensor([0.0, 1.0, 1.0, 2.0])]
    found = noisy_adam.relative(moments)[0]
    assert float(found.reciprocal().mean()) == pytest.approx(1)
    assert float(found[0] / found[1]) == pytest.approx(LEAST_PUBLIC)


@pytest.mark.parametrize("wrong", [[0.0, 0.0], [1.0, math.nan], [1.0, -1.0], [math.inf, 1.0]])
def test_moments_that_say_nothing_are_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="Second moments of public gradients"):
        noisy_adam.relative([torch.tensor(wrong)])


def test_second_moments_are_those_of_gradients_of_length_1() -> None:
    one, other = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.zeros(3))
    losses = [5 * (one * torch.tensor([3.0, 4.0])).sum(), one[0] * 7]
    first, second = noisy_adam.second_moments([one, other], losses)
    torch.testing.assert_close(first, torch.tensor([(0.36 + 1) / 2, 0.32]))
    assert not second.any()
    assert one.grad is None


def test_the_deviation_is_that_of_the_gradients_that_it_steps_by() -> None:
    plan = make_plan(steps=60, noise_multiplier=2.0)
    model, seen = small_model(), []
    optimizer = NoisyAdam(model.parameters(), lr=1e-12, deviation=plan.noise_deviation)
    optimizer.register_step_pre_hook(
        lambda *_: seen.append(torch.cat([one.grad.flatten() for one in model.parameters()]))
    )
    with training(
        model, draws=[[]] * 60, plan=plan, optimizer=optimizer, noise=SecretStream(key=bytes(32))
    ) as made:
        for _ in made:
            pass
    assert plan.noise_deviation == 2.0 * plan.clipping_norm / DIVISOR
    measured = float(torch.stack(seen).std())
    assert measured == pytest.approx(plan.noise_deviation, rel=0.04)  # of 3,180 numbers
    assert torch.isfinite(flat(model)).all()
