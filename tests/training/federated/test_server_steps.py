"""What a coordinator steps by: sums over public constants."""

from __future__ import annotations

import numpy as np
import pytest

from hushdoc.errors import CheckpointError
from hushdoc_training.federated.server_steps import (
    MeanUpdate,
    ServerAdam,
    ServerStep,
    WeightedMean,
)

BEGIN = np.linspace(-1, 1, 5, dtype=np.float32)


def adam() -> ServerAdam:
    return ServerAdam(5, lattice_step=0.25, divisor=4, learning_rate=lambda number: 0.1 / number)


def test_adam_is_that_of_kingma_and_ba() -> None:
    """Written down once more in numpy, without torch."""
    step, found, expected = adam(), BEGIN, BEGIN.astype(np.float64)
    first = second = np.zeros(5)
    for number in (1, 2, 3):
        total = np.arange(-2, 3) * number
        found = step.apply(found, total, number)
        gradient = total * 0.25 / 4
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        mean, spread = first / (1 - 0.9**number), second / (1 - 0.999**number)
        expected = expected - 0.1 / number * mean / (np.sqrt(spread) + 1e-8)
    assert np.allclose(found, expected, atol=1e-6)


def test_a_restarted_coordinator_goes_on_to_the_bit() -> None:
    whole, half = adam(), adam()
    totals = [np.array([3, -1, 0, 7, 2]) * number for number in (1, 2)]
    after_one = half.apply(BEGIN, totals[0], 1)
    restarted = adam()
    restarted.restore({name: np.array(value) for name, value in half.state().items()})
    expected = whole.apply(whole.apply(BEGIN, totals[0], 1), totals[1], 2)
    assert np.array_equal(restarted.apply(after_one, totals[1], 2), expected)


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (adam(), {"exp_avg": np.zeros(5, dtype=np.float32)}),
        (adam(), {"step": np.zeros(()), "exp_avg": np.zeros(4), "exp_avg_sq": np.zeros(4)}),
        (MeanUpdate(lattice_step=1.0, divisor=2), {"step": np.zeros(())}),
        (WeightedMean(lattice_step=1.0), {"step": np.zeros(())}),
    ],
)
def test_the_state_of_another_step_is_refused(step: ServerStep, state: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="own folder"):
        step.restore(state)  # type: ignore[arg-type]
    assert step.state() == {}


def test_a_mean_divides_by_a_public_constant() -> None:
    found = MeanUpdate(lattice_step=0.5, divisor=10).apply(BEGIN, np.array([0, 1, 2, -3, 40]), 1)
    assert np.allclose(found - BEGIN, [0, 0.05, 0.1, -0.15, 2.0])
