"""Parameters that no loss reaches stay as they are, and it is said; never by what examples hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch
from private_simulator import (
    DIVISOR,
    begin,
    clipped_sum,
    make_plan,
    same_sum,
    small_model,
    squares,
    training,
)
from torch import nn
from torch.utils.checkpoint import checkpoint

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.runs import receipts


def with_more(unused: int = 2) -> nn.Module:
    """Returns the small model with parameters that nothing uses."""
    model = small_model()
    model.pooler = nn.Linear(5, unused)
    forward = nn.Sequential.forward
    layers = nn.Sequential(*list(model)[:3])
    model.forward = lambda examples: forward(layers, examples)  # type: ignore[method-assign]
    return model


@contextmanager
def told(says: str, model: nn.Module, **settings: Any) -> Iterator[PrivateTraining[torch.Tensor]]:
    """Yields a training whose start warns."""
    with ExitStack() as stack:
        with pytest.warns(UserWarning, match=says):
            made = stack.enter_context(training(model, **settings))
        yield made


class Branching(nn.Module):
    """Goes by a second layer for examples that say so."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.rare = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        found, rare = self.plain(examples), examples[:, :1] > 1
        return found + self.rare(examples) * rare if bool(rare.any()) else found


def branching_records(rare: Sequence[int]) -> list[list[torch.Tensor]]:
    plain = torch.linspace(0.1, 0.6, 6)
    return [[plain * (0.5 + n / 20) + (n in rare) * 2] for n in range(40)]


@pytest.mark.parametrize("backend", ["book-keeping", "one-by-one", "opacus"])
def test_they_are_left_as_they_are_and_named(backend: str) -> None:
    model = with_more()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.1)
    with told(
        r"2 trainable parameters.*pooler\.bias, pooler\.weight",
        model,
        draws=[[1, 4], []],
        backend=backend,
        optimizer=optimizer,
    ) as made:
        assert set(made.untrained_parameters) == {"pooler.weight", "pooler.bias"}
        made.step()
        made.step()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("pooler")
    assert all(value.requires_grad for value in model.parameters())


def test_the_others_are_clipped_as_if_they_were_not_there() -> None:
    model = with_more()
    with told("pooler", model, draws=[[1, 8]]) as made:
        before = nn.utils.parameters_to_vector(list(model.parameters())[:4]).detach().clone()
        made.step()
    after = nn.utils.parameters_to_vector(list(model.parameters())[:4]).detach()
    assert same_sum((before - after) * DIVISOR, clipped_sum([1, 8]))


def test_no_noise_is_drawn_for_them() -> None:
    model = with_more()
    weight = model.pooler.weight.detach().clone()
    plan = make_plan(steps=1)
    with told("pooler", model, draws=[], plan=plan, coins=None, noise=None) as made:
        first = model[0].weight.detach().clone()
        list(made)
        claim = receipts.claim_of(made, "pages")
    assert torch.equal(model.pooler.weight, weight)
    assert not torch.equal(model[0].weight, first)
    assert claim.training["untrained_parameters"] == ["pooler.bias", "pooler.weight"]
    public = [access for access in claim.data_accesses if "which parameters" in access.purpose]
    assert [access.treatment for access in public] == ["declared-public"]
    claim.to_json()


def test_public_records_that_show_it_are_no_access() -> None:
    trial = [[torch.ones(6)], [torch.zeros(6), 2 * torch.ones(6)]]
    plan = make_plan(steps=1)
    with told(
        "pooler", with_more(), draws=[], plan=plan, coins=None, noise=None, trial_records=trial
    ) as made:
        made.step()
        claim = receipts.claim_of(made, "pages")
    assert not any("which parameters" in access.purpose for access in claim.data_accesses)


def test_a_gradient_of_zero_is_one() -> None:
    # Of the output layer's bias, where targets are met: what is left out never hangs on values.
    model = small_model()
    losses = lambda examples: 0.0 * squares(model)(examples)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with training(model, draws=[[1]], losses=losses) as made:
            assert not made.untrained_parameters


def test_a_step_that_reaches_them_is_refused_before_its_noise() -> None:
    model = Branching()
    records = branching_records(rare=[17])
    with told(
        r"rare\.bias", model, draws=[[3], [3, 17]], records=records, losses=squares(model)
    ) as made:
        made.step()
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        with pytest.raises(PrivacyError, match=r"rare\.bias.*trial"):
            made.step()
        assert made.charged == 2
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), before)
    assert all(value.grad is None for value in model.parameters())


def test_examples_that_reach_different_parameters_leave_none_out() -> None:
    class Routing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.never = (nn.Linear(6, 3) for _ in range(3))

        def forward(self, examples: torch.Tensor) -> torch.Tensor:
            return torch.cat([(self.one if r[0] > 0.5 else self.other)(r[None]) for r in examples])

    model = Routing()
    with pytest.raises(PrivacyError, match=r"never\.bias.*differs from example to example"):
        begin(model, losses=squares(model))


def test_parameters_that_all_examples_together_reach_are_trained() -> None:
    model = Branching()
    records = branching_records(rare=range(0, 40, 2))
    with (
        warnings.catch_warnings(),
        training(
            model, draws=[], records=records, losses=squares(model), backend="one-by-one"
        ) as m,
    ):
        warnings.simplefilter("error")
        assert not m.untrained_parameters


def test_layers_that_are_skipped_by_chance_are_no_unused_ones() -> None:
    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, examples: torch.Tensor) -> torch.Tensor:
            found = self.first(examples)
            skipped = self.training and bool(torch.rand(()) < 0.9)
            return found if skipped else self.second(found)

    for seed in range(5):
        torch.manual_seed(seed)
        model = Skipping()
        with training(model, draws=[[1]], losses=squares(model)) as made:
            assert not made.untrained_parameters
        assert model.training


def test_a_frozen_parameter_between_the_others_stays_frozen() -> None:
    model = with_more()
    model.pooler.bias.requires_grad_(False)
    with told(r"1 trainable", model, draws=[[1]]) as made:
        made.step()
    assert not model.pooler.bias.requires_grad


def test_their_gradients_from_elsewhere_are_refused_too() -> None:
    model = with_more()
    with told("pooler", model, draws=[[1]]) as made:
        model.pooler(torch.ones(1, 5)).sum().backward()
        with pytest.raises(PrivacyError, match="gradients from elsewhere"):
            made.step()


@pytest.mark.parametrize("backend", ["book-keeping", "one-by-one", "opacus"])
def test_reentrant_checkpoints_are_refused_by_the_layers_name(backend: str) -> None:
    class Saving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block, self.last = (nn.Linear(6, 6) for _ in range(3))

        def forward(self, examples: torch.Tensor) -> torch.Tensor:
            return self.last(checkpoint(self.block, self.first(examples), use_reentrant=True))

    model = Saving()
    with pytest.raises(PrivacyError, match="'block'.*use_reentrant=False"):
        begin(model, losses=squares(model), backend=backend)
