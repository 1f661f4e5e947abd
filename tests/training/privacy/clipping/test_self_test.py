"""What the self-test finds on two examples, with chance in the model, and under autocast."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from exact_sums import LossesOf, self_test
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import BookKeeping, check
from hushdoc_training.privacy.clipping import self_test as comparing
from hushdoc_training.privacy.clipping.contract import ClippedBatch
from hushdoc_training.privacy.clipping.placement import Placement
from hushdoc_training.privacy.clipping.replayed_draws import ReplayedDraws

TOKENS, WIDTH = 8, 6


def over_tokens(model: nn.Module, denominators: str, lengths: Sequence[int]) -> LossesOf:
    """Losses of padded examples, divided by what each name says."""
    x = torch.randn(len(lengths), TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    counts = torch.tensor(lengths)

    def losses_of(examples: Sequence[int]) -> torch.Tensor:
        mine = counts[list(examples)]
        mask = (torch.arange(TOKENS) < mine[:, None]).float()
        sums = ((model(x[list(examples)]).squeeze(-1) - 1).square() * mask).sum(1)
        if denominators == "of the example":
            return sums / mine
        if denominators == "of the batch":
            return sums / mask.sum() * len(mine)
        return sums / mine.max()

    return losses_of


@pytest.mark.parametrize("examples", [2, 3, 5])
@pytest.mark.parametrize("denominators", ["of the batch", "of the longest example"])
def test_a_denominator_of_the_batch_is_refused_on_two_examples_too(
    denominators: str, examples: int
) -> None:
    model = nn.Linear(WIDTH, 1)
    lengths = [8, 3, 5, 2, 7][:examples]
    clipper = BookKeeping(model, clipping_norm=1.0)
    with pytest.raises(PrivacyError, match="depends on other examples"):
        check(clipper, over_tokens(model, denominators, lengths), num_examples=examples)
    assert (
        check(clipper, over_tokens(model, "of the example", lengths), num_examples=examples)
        == frozenset()
    )


def test_a_loss_of_one_example_alone_has_the_shape_of_one() -> None:
    model, x = nn.Linear(WIDTH, 1), torch.randn(4, WIDTH)
    with pytest.raises(PrivacyError, match=r"losses of 1 examples have shape \[\]"):
        self_test(model, lambda examples: model(x[list(examples)]).squeeze(), 4)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, 0.2, float("inf"), float("nan")])
def test_a_tolerance_that_lets_everything_pass_is_refused(tolerance: float) -> None:
    model, x = nn.Linear(WIDTH, 1), torch.randn(4, WIDTH)
    with pytest.raises(ValueError, match="tolerance"):
        self_test(model, lambda examples: model(x[list(examples)]).sum(1), 4, tolerance=tolerance)


class Rounding(nn.Module):
    """Computes under autocast, and adds to each example a share of all examples."""

    def __init__(self, share: float, *, halves: bool) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, 64), nn.Linear(64, 1)
        self.share, self.halves = share, halves

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.outer(torch.tanh(self.inner(x)))
        if self.halves:
            y = y.bfloat16()
        y = y.float().squeeze(1) + 2.0
        return y * (1 + self.share * torch.tanh(x).mean())


def test_what_couples_examples_by_less_than_bfloat16_rounds_is_refused() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, WIDTH)
    x[::2] += 1
    for share, halves, refused in ((0.02, False, True), (0.0, False, False), (0.0, True, False)):
        model = Rounding(share, halves=halves)
        losses_of: LossesOf = lambda examples, model=model: model(x[list(examples)])  # noqa: E731
        clipper = BookKeeping(model, clipping_norm=1.0)
        if refused:
            with pytest.raises(PrivacyError, match="depends on other examples"):
                check(clipper, losses_of, num_examples=6, tolerance=3e-2)
        else:
            check(clipper, losses_of, num_examples=6, tolerance=3e-2)
    assert not torch.is_autocast_enabled("cpu")


class Dropping(nn.Module):
    """Leaves its layer out for some examples while it trains, by a generator of one's choice."""

    def __init__(self, draw: Callable[[int], torch.Tensor]) -> None:
        super().__init__()
        self.draw = draw
        self.inner, self.outer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = (self.draw(len(x)) < 0.95).float()[:, None] if self.training else 1.0
        return self.outer(x + kept * torch.tanh(self.inner(x)))


OWN = torch.Generator()
DRAWS: dict[str, Callable[[int], torch.Tensor]] = {
    "torch": torch.rand,
    "numpy": lambda examples: torch.from_numpy(np.random.rand(examples)),
    "python": lambda examples: torch.tensor([random.random() for _ in range(examples)]),
    # What nobody knows of is seen if it shows.
    "own": lambda examples: 2 * torch.rand(examples, generator=OWN),
}


@pytest.mark.parametrize("draws", DRAWS)
def test_layers_left_out_by_chance_are_not_taken_for_a_coupling(draws: str) -> None:
    # Mostly nothing is left out: two passes then agree although they draw.
    x = torch.randn(6, WIDTH)
    for seed in range(15 if draws == "torch" else 5):
        torch.manual_seed(seed)
        model = Dropping(DRAWS[draws]).train()
        check(
            BookKeeping(model, clipping_norm=1.0),
            lambda examples, model=model: model(x[list(examples)]).square().sum(1),  # type: ignore[misc]
            num_examples=6,
        )
        assert model.training


def test_the_self_test_leaves_every_generator_where_it_was() -> None:
    def following() -> tuple[float, float, float]:
        return float(torch.rand(1)), float(np.random.rand()), random.random()

    chance = ReplayedDraws()
    expected = following()
    assert chance.drawn()
    chance.rewind()
    assert not chance.drawn()
    model, x = Dropping(torch.rand).train(), torch.randn(6, WIDTH)
    chance.rewind()
    self_test(model, lambda examples: model(x[list(examples)]).square().sum(1), 6)
    assert following() == expected


@pytest.mark.parametrize("attention", ["whole", "handed in order"])
def test_dropout_inside_of_an_attention_is_no_difference(attention: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.3, batch_first=True)
    model: nn.Module = nn.TransformerEncoder(layer, 2)
    if attention == "handed in order":

        class Attending(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Linear(8, 8)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.inner(x)
                return nn.functional.scaled_dot_product_attention(y, y, x, None, 0.3, True)

        model = Attending()
    model.train()
    x, weights = torch.randn(6, 5, 8), torch.randn(5, 8)
    for seed in range(3):
        torch.manual_seed(seed)
        self_test(
            model, lambda examples: (model(x[list(examples)]) * weights).square().sum((1, 2)), 6
        )
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(("off", "refused"), [(2e-9, False), (2e-8, True)])
def test_what_is_rounding_of_a_gradient_that_is_zero_is_no_difference(
    off: float, refused: bool
) -> None:
    """An attention's key bias has none; 2e-9 of a record's norm is less than fp32 can tell."""

    def batch(of_bias: float) -> ClippedBatch:
        squares = {"weight": torch.ones(1), "key.bias": torch.tensor([of_bias]).square()}
        return ClippedBatch(norms=torch.ones(1), losses=torch.ones(1), nonfinite=0, squares=squares)

    what, layer, error = comparing._of_squares(batch(off), batch(0.0), Placement({}, []))
    assert (what, layer) == ("norm", "key.bias")
    assert (error > comparing._EXACT) == refused
