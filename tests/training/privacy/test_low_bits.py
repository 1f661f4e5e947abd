"""Low bits: what of a sum's last bits is left in a gradient that an optimizer is given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from private_simulator import CLIP, DIVISOR, make_plan, training
from torch import nn

from hushdoc_training.privacy.summing import Sums
from hushdoc_training.randomness.lattice import DISTRIBUTIONS
from hushdoc_training.randomness.secret_stream import SecretStream

CELLS = 40_000
RUNS = 10
MULTIPLIER = 0.25


class Spy(torch.optim.SGD):
    """Keeps the gradients that it is given."""

    def step(self, closure: Any = None) -> None:
        del closure
        self.seen = [p.grad.clone() for group in self.param_groups for p in group["params"]]


def gradient(drawn: list[int], **changed: Any) -> tuple[Any, Any]:
    """Returns what one real step gives to the optimizer, and the grid that it lies on."""
    model = nn.Linear(400, CELLS // 400, bias=False)
    spy = Spy(model.parameters(), lr=1.0)
    with training(
        model,
        draws=[drawn],
        plan=make_plan(noise_multiplier=MULTIPLIER),
        records=[[torch.linspace(1, 2, 400)]] * 90,
        trial_records=[[torch.zeros(400)], [torch.ones(400)]],
        losses=lambda examples: model(torch.stack(list(examples))).sum(1),
        noise=SecretStream(),
        optimizer=spy,
        **changed,
    ) as made:
        made.step()
        return spy.seen[0].flatten() * DIVISOR, made._lattice


def target() -> torch.Tensor:
    """Returns the clipped gradient of the record in question, which the attacker knows."""
    whole = torch.linspace(1, 2, 400).repeat(CELLS // 400)
    return whole * (CLIP / float(whole.norm()))


def tells_a_member(released: torch.Tensor) -> bool:
    """Whether small results are multiples of what only a sum with the target is a multiple of."""
    mine = target()
    spacing = 2.0 ** (torch.floor(torch.log2(mine)) - 25)
    small = (released.abs() < mine / 16) & (released != 0)
    assert int(small.sum()) > 8  # of 40 or so
    return bool((torch.remainder(released[small], spacing[small]) == 0).all())


def float32_noised(total: torch.Tensor) -> torch.Tensor:
    """Adds noise as it was added before there was a lattice: in float32, to a float32 sum."""
    noise = SecretStream().normals((CELLS,)) * MULTIPLIER * CLIP
    return total + torch.from_numpy(noise).float()


def test_float32_noise_tells_a_member_from_low_bits() -> None:
    nobody = torch.zeros(CELLS)
    assert all(tells_a_member(float32_noised(target())) for _ in range(RUNS))
    assert not any(tells_a_member(float32_noised(nobody)) for _ in range(RUNS))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_low_bits_of_a_lattice_tell_nothing(distribution: str) -> None:
    told = {
        bool(drawn): [
            tells_a_member(gradient(drawn, noise_distribution=distribution)[0]) for _ in range(RUNS)
        ]
        for drawn in ([0], [])
    }
    assert told[True] == told[False]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("drawn", [[], [3], list(range(80))])
def test_every_gradient_is_a_multiple_of_the_grid(drawn: list[int], distribution: str) -> None:
    """With no record as with 80, whose sum is carried over to float64 on its way."""
    released, grid = gradient(drawn, noise_distribution=distribution, max_examples=8)
    steps = released.double() / grid.step
    assert torch.equal(steps, steps.round())
    assert grid.distribution == distribution
    noise = released - len(drawn) * target()
    assert float(noise.std()) == pytest.approx(MULTIPLIER * CLIP, rel=0.02)
    # Float32 keeps 24 bits of each, whichever the sum was.
    small = steps[steps.abs() < 2**24]
    assert len(small) > 30
    assert abs(float(torch.remainder(small, 2).mean()) - 0.5) < 0.4


def test_many_records_are_carried_over_to_float64() -> None:
    class Clipper:
        def __init__(self) -> None:
            self.sums = {"w": torch.zeros(1)}

        def clear(self) -> None:
            self.sums["w"].zero_()

    clipper = Clipper()
    sums = Sums(clipper)  # type: ignore[arg-type]
    sums.begin(at_once=64)
    for _ in range(1000):
        sums.make_room(32)
        clipper.sums["w"] += 2.0**24 if _ == 0 else 1.0
    # In float32 alone 2^24 + 1 is 2^24, and 999 records would be lost.
    assert float(sums.total("w")) == 2.0**24 + 998
    sums.clear()
    assert float(sums.total("w")) == 0.0
