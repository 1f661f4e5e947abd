"""Averages of weights: of what the steps left, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from private_simulator import example_records, flat, make_plan, small_model, training
from torch import nn

from hushdoc_training.privacy.averaging import AVERAGES, KEPT
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream

DRAWS = [[0, 8], [1], [], [2, 7], [3]]
STEPS = len(DRAWS)


def planned(steps: int) -> PrivacyPlan:
    return make_plan(steps=steps, noise_multiplier=3.0)


def trained(averaging: str, steps: int = STEPS) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Returns the weights after each step but the last as they move, and what is released."""
    model, seen = small_model(), []
    draws, noise = [DRAWS[step % len(DRAWS)] for step in range(steps)], SecretStream(key=bytes(32))
    with training(
        model, draws=draws, averaging=averaging, noise=noise, plan=planned(steps)
    ) as made:
        for _ in made:
            seen.append(flat(model))
    return seen, flat(model)


@pytest.mark.parametrize("averaging", AVERAGES)
def test_the_last_step_leaves_the_average_of_all_that_moved(averaging: str) -> None:
    moved, last = trained("none")
    seen, released = trained(averaging)
    assert all(torch.equal(one, other) for one, other in zip(moved[:-1], seen[:-1], strict=True))
    weights = {"none": [0.0] * (STEPS - 1) + [1.0], "half": [0.0, 0.0] + [1 / 3] * 3}
    # Of five steps none is so late that its share would be below that of an exponential average.
    weights["ema"] = [1 / STEPS] * STEPS
    expected = sum(w * one.double() for w, one in zip(weights[averaging], moved, strict=True))
    torch.testing.assert_close(released, expected.float(), rtol=1e-6, atol=1e-6)
    assert torch.equal(released, last) == (averaging == "none")


def test_an_exponential_average_forgets() -> None:
    moved, _ = trained("none", steps=40)
    expected = moved[0]
    for number, one in enumerate(moved[1:], start=2):
        expected = expected + (one - expected) * max(1 / number, 1 - KEPT)
    torch.testing.assert_close(trained("ema", steps=40)[1], expected, rtol=1e-6, atol=1e-6)


def test_a_single_step_is_its_own_average() -> None:
    for averaging in AVERAGES:
        (seen,), released = trained(averaging, steps=1)
        assert torch.equal(seen, released)


def test_a_run_whose_last_steps_were_lost_releases_the_average_of_the_others() -> None:
    model = small_model()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    settings: dict[str, Any] = {"plan": planned(3), "optimizer": optimizer}
    seen = []
    with training(model, draws=DRAWS, averaging="ema", **settings) as made:
        for _ in range(2):
            made.step()
            seen.append(flat(model))
    with training(model, draws=[], averaging="ema", **settings) as made:
        made.resume(3, restored=2)
    torch.testing.assert_close(flat(model), (seen[0] + seen[1]) / 2)


def test_nobody_averages_after_the_training() -> None:
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with training(model, draws=[[0]], plan=planned(1), optimizer=optimizer,
                  averaging="ema", records=example_records()) as made:  # fmt: skip
        made.step()
    before = flat(model)
    model(torch.ones(1, 6)).sum().backward()
    gradient = torch.cat([value.grad.flatten() for value in model.parameters()])  # type: ignore[union-attr]
    optimizer.step()
    torch.testing.assert_close(flat(model), before - gradient)
