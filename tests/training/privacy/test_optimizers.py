from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.noise import NoiseStream
from hushdoc_training.privacy.optimizers import PrivateOptimizer, trainable
from hushdoc_training.privacy.plan import PrivacyPlan

CLIP = 0.1


def make_plan(noise_multiplier: float = 1e6) -> PrivacyPlan:
    return PrivacyPlan(
        privacy_unit="document",
        epsilon=1e9,
        delta=1e-5,
        sampling_rate=0.5,
        steps=1,
        clipping_norm=CLIP,
        noise_multiplier=noise_multiplier,
        expected_records=4,
    )


class Silent(NoiseStream):
    """Noise of zero, so that the clipped sum itself can be seen."""

    def normal(self, shape: torch.Size | tuple[int, ...], *, std: float) -> torch.Tensor:
        return torch.zeros(shape)


def setting(seed: int = 0) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    return model, torch.randn(7, 6) * torch.logspace(-3, 2, 7).unsqueeze(1)


def clipped_sum(model: nn.Module, data: torch.Tensor, records: list[int]) -> torch.Tensor:
    """Returns what one step subtracts, by a plain SGD step of rate 1."""
    model = copy.deepcopy(model)
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = PrivateOptimizer(plain, make_plan(), noise=Silent())
    optimizer.step_on(records, lambda record: model(data[record]).square().sum())
    after = nn.utils.parameters_to_vector(model.parameters()).detach()
    return (before - after) * 4  # times the public divisor


def gradient(model: nn.Module, data: torch.Tensor, record: int) -> torch.Tensor:
    model = copy.deepcopy(model)
    loss = model(data[record]).square().sum()
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def test_equals_one_by_one_gradients_clipped_by_hand() -> None:
    model, data = setting()
    records = [0, 2, 3, 6]
    expected = torch.zeros(())
    for record in records:
        one = gradient(model, data, record)
        expected = expected + one * min(1.0, CLIP / float(one.norm()))
    found = clipped_sum(model, data, records)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("removed", [0, 3, 6])
def test_no_record_moves_the_sum_by_more_than_the_clipping_norm(removed: int) -> None:
    model, data = setting()
    with_it = clipped_sum(model, data, list(range(7)))
    without = clipped_sum(model, data, [record for record in range(7) if record != removed])
    assert float((with_it - without).norm()) <= CLIP * (1 + 1e-4)


def test_an_empty_step_is_noise_of_the_planned_scale() -> None:
    model = nn.Linear(400, 500, bias=False)
    before = model.weight.detach().clone()
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    plan = make_plan(noise_multiplier=3.0)
    PrivateOptimizer(plain, plan, noise=NoiseStream(key=bytes(32))).step_on(
        [], lambda _: before.sum()
    )
    moved = (model.weight.detach() - before).flatten()
    assert float(moved.std()) == pytest.approx(3.0 * CLIP / 4, rel=0.01)


def test_noise_is_drawn_once_however_many_records() -> None:
    model = nn.Linear(400, 500, bias=False)
    before = model.weight.detach().clone()
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    plan = make_plan(noise_multiplier=3.0)
    optimizer = PrivateOptimizer(plain, plan, noise=NoiseStream(key=bytes(32)))
    losses = optimizer.step_on(range(5), lambda _: (model.weight * 0.0).sum())
    assert len(losses) == 5
    moved = (model.weight.detach() - before).flatten()
    assert float(moved.std()) == pytest.approx(3.0 * CLIP / 4, rel=0.01)


def test_a_gradient_that_is_not_finite_becomes_zero_and_is_counted() -> None:
    model, data = setting()
    data[3] = float("inf")
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = PrivateOptimizer(plain, make_plan(), noise=Silent())
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    optimizer.step_on([3], lambda record: model(data[record]).square().sum())
    assert optimizer.nonfinite_records == 1
    assert torch.equal(before, nn.utils.parameters_to_vector(model.parameters()).detach())


def test_steps_are_independent_of_earlier_records() -> None:
    model, data = setting()
    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer = PrivateOptimizer(plain, make_plan(), noise=Silent())
    for records in ([0, 1], [], [2]):
        optimizer.step_on(records, lambda record: model(data[record]).square().sum())
        assert all(parameter.summed_grad is None for parameter in model.parameters())


def test_refuses_what_could_not_be_private() -> None:
    with pytest.raises(PrivacyError, match="batch normalisation"):
        trainable(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(PrivacyError, match="frozen"):
        trainable(frozen)
    model = nn.Linear(2, 2)
    unused = nn.Parameter(torch.zeros(3))
    optimizer = PrivateOptimizer(
        torch.optim.SGD([*model.parameters(), unused], lr=1.0), make_plan(), noise=Silent()
    )
    with pytest.raises(PrivacyError, match="1 trainable parameters got no gradient"):
        optimizer.step_on([0], lambda _: model(torch.ones(2)).sum())


def test_plan_refuses_to_promise_what_it_does_not_keep() -> None:
    good = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.2, steps=50)
    assert good.epsilon_after(50) <= 8
    assert good.epsilon_after(50) > 7.9
    assert good.epsilon_after(10) < good.epsilon_after(20)
    with pytest.raises(ValueError, match="more than its target"):
        PrivacyPlan(
            privacy_unit="document",
            epsilon=8,
            delta=1e-5,
            sampling_rate=0.2,
            steps=50,
            clipping_norm=0.1,
            noise_multiplier=good.noise_multiplier * 0.9,
            expected_records=8,
        )
    for wrong in ({"privacy_unit": "word"}, {"clipping_norm": 0.0}, {"expected_records": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.2, steps=50, **wrong)  # type: ignore[arg-type]
