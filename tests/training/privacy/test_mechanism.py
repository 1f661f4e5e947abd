"""The mechanism itself: what leaves a step is a bounded sum and noise of the planned scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from private_simulator import (
    CLIP,
    DIVISOR,
    Scripted,
    by_hand,
    clipped_sum,
    example_records,
    flat,
    make_plan,
    same_sum,
    small_model,
    squares,
    training,
)
from scipy import stats
from torch import nn

from hushdoc_training.privacy.engine import BACKENDS, PrivateTraining
from hushdoc_training.randomness.sampling import poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream

EVERY = list(range(9))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_sum_is_that_of_gradients_clipped_one_by_one(backend: str) -> None:
    found = clipped_sum(EVERY, backend=backend)
    assert same_sum(found, by_hand(EVERY, example_records()))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("removed", [0, 2, 7, 8])
def test_no_record_moves_the_sum_by_more_than_the_clipping_norm(removed: int, backend: str) -> None:
    rest = [index for index in EVERY if index != removed]
    moved = clipped_sum(EVERY, backend=backend) - clipped_sum(rest, backend=backend)
    assert float(moved.norm()) <= CLIP * (1 + 1e-4)
    # Large records reach the bound, so that the test would see one that is not clipped.
    if removed >= 7:
        assert float(moved.norm()) > 0.99 * CLIP


@pytest.mark.parametrize("max_examples", [1, 2, 4, 100])
@pytest.mark.parametrize("padded", [False, True])
def test_physical_batches_change_nothing(max_examples: int, padded: bool) -> None:
    found = clipped_sum(EVERY, max_examples=max_examples, padded=padded)
    assert same_sum(found, by_hand(EVERY, example_records()))


def test_neighbouring_data_sets_differ_by_the_record_alone() -> None:
    """A record that is not drawn, or is not there, leaves every bit of the step as it was."""
    drawn = [0, 2, 5]
    whole = clipped_sum(drawn)
    records = example_records()
    assert torch.equal(whole, clipped_sum(drawn, records=records[:6]))
    assert torch.equal(whole, clipped_sum(drawn, records=[*records, *records, *records]))


def test_the_step_divides_by_a_public_constant_whatever_was_drawn() -> None:
    one, twice = clipped_sum([8]), clipped_sum([8, 17], records=[*example_records()] * 2)
    assert float(one.norm()) == pytest.approx(CLIP, rel=1e-3)
    assert same_sum(twice, 2 * one)


def noise_of(draws: list[list[int]], *, steps: int = 1, key: bytes = bytes(32)) -> torch.Tensor:
    """Returns what each step added, for a model whose gradients are zero, shape [steps, cells]."""
    model = nn.Linear(400, 100, bias=False)
    seen = []
    plan = make_plan(noise_multiplier=3.0, epsilon=1e9)
    with training(
        model,
        draws=draws,
        plan=plan,
        records=[[torch.zeros(400)]] * 9,
        trial_records=[[torch.zeros(400)], [torch.ones(400)]],
        losses=lambda examples: model(torch.stack(list(examples))).sum(1),
        noise=SecretStream(key=key),
        max_examples=2,
    ) as made:
        for _ in range(steps):
            before = flat(model)
            made.step()
            seen.append(flat(model) - before)
    return torch.stack(seen)


@pytest.mark.parametrize("drawn", [[], [3], EVERY])
def test_noise_is_added_once_at_the_planned_scale(drawn: list[int]) -> None:
    """As much for no record as for nine in five physical batches."""
    (noise,) = noise_of([drawn]) * DIVISOR / CLIP
    assert float(noise.std()) == pytest.approx(3.0, rel=0.02)
    assert stats.kstest(noise.numpy() / 3.0, "norm").pvalue > 0.001


def test_steps_are_independent() -> None:
    noise = noise_of([[0, 1], [], [2]], steps=3)
    spreads = (noise * DIVISOR / CLIP).std(dim=1).tolist()
    assert spreads == pytest.approx([3.0] * 3, rel=0.02)  # none has less than the first
    correlations = torch.corrcoef(noise) - torch.eye(3)
    assert float(correlations.abs().max()) < 0.02
    # And no record of one step is still there in the next.
    model = small_model()
    alone = clipped_sum([2])
    with training(model, draws=[[0, 8], [], [2]], rate=0.0) as made:
        made.step()
        made.step()
        made.optimizer.param_groups[0]["lr"] = 1.0
        before = flat(model)
        made.step()
    assert same_sum((before - flat(model)) * DIVISOR, alone)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_draw_is_a_step_of_noise_that_counts(backend: str) -> None:
    model = small_model()
    before = flat(model)
    with training(model, draws=[[], []], noise=SecretStream(), backend=backend) as made:
        first = made.step()
        assert (first.drawn, first.losses, first.loss) == (0, (), None)
        made.step()
        assert (made.charged, made.empty) == (2, 2)
        assert made.mechanism() == made.plan.mechanism(2)
    assert not torch.equal(flat(model), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_that_is_not_finite_becomes_zero_and_is_counted(backend: str) -> None:
    records = example_records()
    records[3] = [torch.full((6,), float("inf"))]
    found = clipped_sum([0, 3, 8], records=records, backend=backend, padded=True, max_examples=5)
    assert same_sum(found, by_hand([0, 8], records))
    with training(small_model(), draws=[[3]], records=records, backend=backend) as made:
        assert made.step().nonfinite == made.nonfinite == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_finite_does_not_reach_other_records_by_a_kernel(backend: str) -> None:
    """As one does that multiplies what lies beyond a row's end by 0."""
    records, model = example_records(), small_model()
    records[3] = [torch.full((6,), float("inf"))]

    def beyond(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        output.data.add_(0 * output.data.sum(0, keepdim=True))

    before = flat(model)
    with training(model, draws=[[0, 3, 8]], records=records, backend=backend) as made:
        next(iter(model.children())).register_forward_hook(beyond)
        assert made.step().nonfinite == 1
    assert same_sum((before - flat(model)) * DIVISOR, by_hand([0, 8], records))


def test_multiplicity_clips_the_mean_over_the_repetitions_once() -> None:
    once = clipped_sum(EVERY)
    for times in (2, 3):
        assert same_sum(clipped_sum(EVERY, multiplicity=times), once)
    # Each repetition draws its own randomness, and one clip bounds them together.
    torch.manual_seed(3)
    model = small_model()

    def noisy(examples: list[torch.Tensor]) -> torch.Tensor:
        inputs = torch.stack(list(examples))
        return model(inputs + torch.randn_like(inputs)).square().sum(1)

    before = flat(model)
    with training(
        model, draws=[[8]], losses=noisy, trial_losses=squares(model), multiplicity=8
    ) as made:
        made.step()
    assert float((before - flat(model)).norm()) * DIVISOR <= CLIP * (1 + 1e-4)


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_pairs_of_records_and_of_steps_are_drawn_independently(key: bytes | None) -> None:
    """Shuffled or fixed-size batches would show in pairs: joint draws below the square."""
    rate, num_records, steps = 0.3, 12, 6000
    coins = SecretStream() if key is None else SecretStream(key=key)
    draws = np.zeros((steps, num_records))
    for step in range(steps):
        drawn = poisson_sample(num_records, rate, coins)
        draws[step, drawn] = 1
    spread = (rate * (1 - rate)) ** 2 / steps
    inside = np.cov(draws, rowvar=False)[np.triu_indices(num_records, 1)]
    assert np.abs(inside).max() < 5 * np.sqrt(spread)
    assert stats.kstest(inside / np.sqrt(spread), "norm").pvalue > 1e-4
    centred = draws - rate
    between = (centred[1:] * centred[:-1]).mean()
    assert abs(between) < 5 * np.sqrt(spread / num_records)
    assert abs(centred.mean()) < 5 * np.sqrt(rate * (1 - rate) / draws.size)
    assert stats.chisquare(draws.sum(0)).pvalue > 0.001
    sizes = draws.sum(1)
    assert sizes.var() == pytest.approx(num_records * rate * (1 - rate), rel=0.08)


def test_the_engine_draws_by_the_plans_rate_from_the_operating_system() -> None:
    model = nn.Linear(1, 1)
    plan = make_plan(sampling_rate=0.2, steps=200)
    records = [[torch.zeros(1)] for _ in range(100)]
    with PrivateTraining(
        plan,
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        records=records,
        losses=squares(model),
        max_examples=100,
        trial_records=[[torch.zeros(1)], [torch.ones(1)]],
    ) as made:
        drawn = [step.drawn for step in made]
    assert len(drawn) == 200
    assert np.mean(drawn) == pytest.approx(20, abs=5 * np.sqrt(16 / 200))
    assert np.var(drawn) > 8  # fixed-size batches would not vary at all


def test_the_simulators_coins_do_what_they_say() -> None:
    coins = Scripted([[1, 3], []])
    assert poisson_sample(5, 0.5, coins) == [1, 3]
    assert poisson_sample(5, 0.5, coins) == []
