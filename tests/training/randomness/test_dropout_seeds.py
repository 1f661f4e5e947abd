"""What is drawn inside a step can't be foretold, and leaves the program's own chance alone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from private_simulator import example_records, flat, make_plan, small_model, training
from torch import nn
from torch.utils.checkpoint import checkpoint

from hushdoc_training.privacy.clipping.replayed_draws import ReplayedDraws
from hushdoc_training.privacy.engine import BACKENDS
from hushdoc_training.randomness import dropout_seeds


class Dropping(nn.Module):
    """Notes the masks that it draws, layer by layer, and how often it computes the first."""

    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 40), nn.Linear(40, 3)
        self.dropout = nn.Dropout(0.5)
        self.checkpointed = checkpointed
        self.masks: list[torch.Tensor] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.checkpointed and torch.is_grad_enabled():
            hidden: torch.Tensor = checkpoint(self.dropped, inputs, use_reentrant=False)
        else:
            hidden = self.dropped(inputs)
        out: torch.Tensor = self.last(hidden)
        return out

    def dropped(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)
        if self.training:
            self.masks.append(self.dropout(torch.ones_like(hidden.detach())) > 0)
        kept: torch.Tensor = hidden * self.masks[-1] * 2 if self.training else hidden
        return kept


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def drawn() -> tuple[float, float, float]:
    return float(torch.rand(())), float(np.random.rand()), random.random()


def losses_of(model: nn.Module) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    return lambda rows: model(torch.stack(list(rows))).square().sum(1)


def trained(model: Dropping, *, seed: int, **changed: object) -> torch.Tensor:
    """Returns the weights after a step under a seed, and leaves its masks in the model."""
    with training(
        model,
        draws=[list(range(9))],
        losses=losses_of(model),
        max_examples=100,
        **changed,
    ) as made:
        model.masks.clear()
        seed_all(seed)
        made.step()
    return flat(model)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_seed_that_is_known_says_nothing_of_the_masks(backend: str) -> None:
    one, other = Dropping(), Dropping()
    weights = [trained(model, seed=7, backend=backend) for model in (one, other)]
    assert not torch.equal(*weights)
    assert sum(len(mask) for mask in one.masks) == sum(map(len, example_records()))
    first, second = torch.cat(one.masks), torch.cat(other.masks)
    # Two independent fair masks agree in half of their places.
    assert 0.4 < float((first == second).float().mean()) < 0.6
    assert 0.4 < float(first.float().mean()) < 0.6


def test_a_step_leaves_the_programs_own_chance_alone() -> None:
    trained(Dropping(), seed=7)
    found = drawn()
    seed_all(7)
    assert found == drawn()


def test_a_layer_that_is_computed_twice_draws_the_same_mask() -> None:
    model = Dropping(checkpointed=True)
    trained(model, seed=7)
    forward, again = model.masks
    assert torch.equal(forward, again)


def test_whatever_a_loss_draws_from_by_default_is_secret() -> None:
    draws: list[tuple[float, ...]] = []
    model = small_model()

    def noisy(rows: Sequence[torch.Tensor]) -> torch.Tensor:
        draws.append(drawn())
        return model(torch.stack(list(rows))).square().sum(1)

    with training(model, draws=[[1]] * 3, losses=noisy, plan=make_plan(steps=3)) as made:
        draws.clear()
        for _ in range(3):
            seed_all(7)
            made.step()
    assert all(len(set(column)) == 3 for column in zip(*draws, strict=True))


def test_the_cpu_draws_from_a_whole_secret_state_and_not_from_32_bits_of_a_seed() -> None:
    state = torch.get_rng_state()
    seen = set()
    for _ in range(50):
        with dropout_seeds.secret([]):
            seen.add(tuple(torch.get_rng_state()[24:5016].tolist()))
            numbers = torch.rand(20_000)
            assert 0.49 < float(numbers.mean()) < 0.51
            assert abs(float(torch.corrcoef(numbers.reshape(2, -1))[0, 1])) < 0.05
    assert len(seen) == 50
    assert torch.equal(state, torch.get_rng_state())
    # A state that a seed of 32 bits leads to begins with that seed, and the rest follows from it.
    words = np.array(next(iter(seen)), dtype=np.uint8).view(np.uint64)
    torch.manual_seed(int(words[0]))
    followed = torch.get_rng_state().numpy()[24:5016].view(np.uint64)
    assert followed[0] == words[0]
    assert (followed[1:] == words[1:]).sum() < 3


def test_what_is_repeated_draws_alike_and_secrets_go_on_when_a_step_fails() -> None:
    state = torch.get_rng_state()
    found = []
    for _ in range(2):
        with dropout_seeds.repeated([torch.ones(1)]):
            found.append(drawn())
    assert found[0] == found[1]
    with pytest.raises(RuntimeError, match="out of memory"), dropout_seeds.secret([]):
        raise RuntimeError("out of memory")
    assert torch.equal(state, torch.get_rng_state())


def test_steps_of_two_threads_take_turns() -> None:
    """Or the end of one would give the other what the program had seeded."""
    torch.manual_seed(7)
    foretold = torch.rand(3)
    torch.manual_seed(7)
    inside, drawn = threading.Event(), []

    def draw() -> None:
        with dropout_seeds.secret([]):
            inside.set()
            drawn.append(torch.rand(3))

    other = threading.Thread(target=draw)
    with dropout_seeds.secret([]):
        other.start()
        assert not inside.wait(0.2)
    other.join()
    assert not torch.equal(drawn[0], foretold)
    assert torch.equal(torch.rand(3), foretold)


def test_a_step_waits_for_the_self_test_of_another_thread() -> None:
    """Which draws the same again and again, from what the program had seeded."""
    torch.manual_seed(7)
    foretold = torch.rand(3)
    torch.manual_seed(7)
    inside, rewound, drawn = threading.Event(), threading.Event(), []

    def draw() -> None:
        with dropout_seeds.secret([]):
            inside.set()
            rewound.wait(5)
            drawn.append(torch.rand(3))

    other = threading.Thread(target=draw)
    with ReplayedDraws() as replay:
        other.start()
        assert not inside.wait(0.2)
        replay.rewind()
        rewound.set()
    other.join()
    assert not torch.equal(drawn[0], foretold)
    assert torch.equal(torch.rand(3), foretold)
