"""What the guarantee rests on: bounds per record, padding, neighbours, and gradients that burst."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import BookKeeping, Clipper, OneByOne, OpacusHooks

EXAMPLES = 6
BACKENDS = (BookKeeping, OneByOne, OpacusHooks)
Backend = Callable[..., Clipper]


class Tagger(nn.Module):
    """Small, with every kind of part that book-keeping tells apart."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(300, 8), nn.LayerNorm(8)
        self.inner, self.outer = nn.Linear(8, 90), nn.Linear(90, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.tanh(self.inner(self.norm(self.table(words)))))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(3)
    return Tagger()


@pytest.fixture
def words() -> torch.Tensor:
    return torch.randint(0, 300, (EXAMPLES, 5), generator=torch.Generator().manual_seed(4))


def losses(model: nn.Module, words: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: model(words).square().mean((1, 2)) * 30


def added(
    backend: Backend,
    losses: Callable[[], torch.Tensor],
    model: nn.Module,
    records: torch.Tensor | int,
    *,
    norm: float = 0.3,
    **settings: Any,
) -> tuple[Any, torch.Tensor]:
    """Returns what a clipper found in one batch, and its sum; a number is of records of one."""
    records = torch.arange(records) if isinstance(records, int) else records
    clipper = backend(model, clipping_norm=norm)
    return clipper.add(losses, records, **settings), whole(clipper.sums)


def whole(sums: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([total.flatten() for total in sums.values()])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("clipping_norm", [0.01, 1.0, 1e6])
def test_removing_one_record_moves_the_sum_by_at_most_the_norm(
    backend: Backend, clipping_norm: float, model: nn.Module, words: torch.Tensor
) -> None:
    records = torch.tensor([0, 1, 1, 2, 3, 3])
    everybody = backend(model, clipping_norm=clipping_norm)
    found = everybody.add(losses(model, words), records)
    for record in range(4):
        without = backend(model, clipping_norm=clipping_norm)
        without.add(losses(model, words), torch.where(records == record, -1, records))
        moved = (whole(everybody.sums) - whole(without.sums)).norm()
        assert moved <= clipping_norm * (1 + 1e-6) + 1e-6 * whole(everybody.sums).norm()
        expected = min(float(found.norms[record]), clipping_norm)
        assert moved == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("backend", [BookKeeping, OpacusHooks])
def test_examples_of_padding_count_for_nothing_whatever_they_hold(
    backend: Backend, model: nn.Module, words: torch.Tensor
) -> None:
    records = torch.tensor([0, -1, 1, 2, -1, 3])
    factors = torch.tensor([1.0, float("inf"), 1.0, 1.0, float("nan"), 1.0])
    plain = losses(model, words)
    found, padded = added(backend, lambda: plain() * factors, model, records)
    expected, alone = added(backend, losses(model, words[records >= 0]), model, 4)
    torch.testing.assert_close(found.norms, expected.norms)
    torch.testing.assert_close(padded, alone, rtol=1e-4, atol=1e-6)
    assert found.nonfinite == 0
    assert found.losses.shape == (EXAMPLES,)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_padding_or_of_nothing_adds_nothing(backend: Backend, model: nn.Module) -> None:
    clipper = backend(model, clipping_norm=0.5)

    def never() -> torch.Tensor:
        raise AssertionError("the model ran")

    for examples in (0, 3):
        found = clipper.add(never, torch.full((examples,), -1))
        assert found.norms.shape == (0,)
        assert found.losses.shape == (examples,)
    assert not whole(clipper.sums).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_others_do_not_change_a_records_share(
    backend: Backend, model: nn.Module, words: torch.Tensor
) -> None:
    _, alone = added(backend, losses(model, words[:1]), model, 1)
    for neighbours in (words[1:3], words[3:]):
        company = torch.cat([words[:1], neighbours])
        _, both = added(backend, losses(model, company), model, len(company))
        _, others = added(backend, losses(model, neighbours), model, len(neighbours))
        torch.testing.assert_close(both - others, alone, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_batch_or_many_give_the_same_sum(
    backend: Backend, model: nn.Module, words: torch.Tensor
) -> None:
    _, at_once = added(backend, losses(model, words), model, EXAMPLES)
    clipper = backend(model, clipping_norm=0.3)
    for example in range(EXAMPLES):
        clipper.add(losses(model, words[example : example + 1]), torch.tensor([0]))
    torch.testing.assert_close(at_once, whole(clipper.sums), rtol=1e-4, atol=1e-6)
    clipper.clear()
    assert not whole(clipper.sums).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_multiply_losses_before_the_clip(
    backend: Backend, model: nn.Module, words: torch.Tensor
) -> None:
    # A record seen twice at half its weight is that record.
    records, weights = torch.tensor([0, 1, 0, 1]), torch.full((4,), 0.5)
    repeated = losses(model, torch.cat([words[:2], words[:2]]))
    found, twice = added(backend, repeated, model, records, weights=weights)
    expected, once = added(backend, losses(model, words[:2]), model, 2)
    torch.testing.assert_close(found.norms, expected.norms)
    torch.testing.assert_close(twice, once, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", [BookKeeping, OpacusHooks])
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_gradient_that_is_not_finite_becomes_zero_and_is_counted(
    backend: Backend, bad: float, model: nn.Module, words: torch.Tensor
) -> None:
    factors = torch.ones(EXAMPLES)
    factors[2] = bad
    plain = losses(model, words)
    found, burst = added(backend, lambda: plain() * factors, model, EXAMPLES)
    assert found.nonfinite == 1
    assert not torch.isfinite(found.norms[2])
    _, rest = added(backend, losses(model, words[[0, 1, 3, 4, 5]]), model, 5)
    torch.testing.assert_close(burst, rest, rtol=1e-4, atol=1e-6)
    large = backend(model, clipping_norm=0.3).add_large([lambda: plain() * factors])
    assert large.nonfinite == 1


def test_one_by_one_leaves_out_only_what_it_can_tell_apart(
    model: nn.Module, words: torch.Tensor
) -> None:
    clipper = OneByOne(model, clipping_norm=0.3)
    plain = losses(model, words)
    found = clipper.add(lambda: plain() * float("inf"), torch.zeros(EXAMPLES, dtype=torch.int64))
    assert found.nonfinite == 1
    assert not whole(clipper.sums).any()
    factors = torch.tensor([1.0, float("inf"), 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(PrivacyError, match="batch of its own"):
        clipper.add(lambda: plain() * factors, torch.arange(EXAMPLES))


def test_cancelling_gradients_are_not_underestimated() -> None:
    # Large shares that all but cancel: a Gram matrix in fp32 alone would report far too little or
    # even a negative square.
    torch.manual_seed(0)
    model = nn.Linear(200, 200, bias=False)
    x = torch.randn(1, 1, 200).repeat(1, 40, 1) * 100
    signs = torch.ones(1, 40, 1)
    signs[:, ::2] = -1
    rest = torch.randn(1, 40, 200) * 1e-3
    clippers: list[Any] = [
        BookKeeping(model, clipping_norm=1.0),
        OneByOne(model, clipping_norm=1),
    ]
    ours, truth = (
        clipper.add(lambda: (model(x + rest) * signs).sum((1, 2)), torch.tensor([0])).norms
        for clipper in clippers
    )
    torch.testing.assert_close(ours, truth, rtol=1e-2, atol=0)
    assert whole(clippers[0].sums).norm() <= 1.0


class Difference(nn.Module):
    """Uses one large layer, or one large table, twice with opposite signs."""

    def __init__(self, *, table: bool) -> None:
        super().__init__()
        self.inner = nn.Embedding(600, 600) if table else nn.Linear(600, 600, bias=False)
        self.table = table
        self.register_buffer("weight", torch.randn(600))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first = F.linear(x, self.inner.weight) if self.table else self.inner(x)
        if self.table:
            # An example of the table, out of which the product takes all but the same.
            word = (x[:, :1] * 0 + 7).long()
            return (first[:, 7] - (self.inner(word)[:, 0] * y).sum(1)).unsqueeze(1)
        return (first - self.inner(y)) * self.weight


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0, 3000.0])
def test_uses_that_cancel_each_other_are_not_underestimated(scale: float, table: bool) -> None:
    torch.manual_seed(0)
    model = Difference(table=table)
    x = torch.randn(3, 600) * scale
    y = x + torch.randn(3, 600) * 1e-4 * scale
    records = torch.arange(3)
    truth, ours = (make(model, clipping_norm=1e-2) for make in (OneByOne, BookKeeping))
    expected, found = (
        clipper.add(lambda: model(x, y).sum(1), records) for clipper in (truth, ours)
    )
    assert float(expected.norms.min()) > 0
    assert found.nonfinite == 0
    torch.testing.assert_close(found.norms, expected.norms, rtol=1e-2, atol=0)
    for example in range(3):  # what is added has the norm that was measured
        alone = BookKeeping(model, clipping_norm=float(expected.norms.min()) / 2)
        alone.add(lambda: model(x, y).sum(1), torch.where(records == example, 0, -1))
        assert whole(alone.sums).double().norm() <= alone.clipping_norm


WIDE = 600  # so that gradients by record are not formed at once


class TwoUses(nn.Module):
    """Uses one weight as a layer, and once more in a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDE, WIDE, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.inner(x).sum(1) + (self.inner.weight * y).sum(2)


CANCELLING = {
    "linear": (lambda: nn.Linear(WIDE, WIDE, bias=False), lambda model, x: model(x)),
    "table": (
        lambda: nn.Embedding(50, WIDE),
        lambda model, x: model((x[..., 0] * 0).long() + 3) * x,
    ),
    "convolution": (
        lambda: nn.Conv1d(WIDE, WIDE, 1, bias=False),
        lambda model, x: model(x.transpose(1, 2)),
    ),
    "image": (
        lambda: nn.Conv2d(WIDE, WIDE, 1, bias=False),
        lambda model, x: model(x.transpose(1, 2).unsqueeze(3)),
    ),
    "two uses": (TwoUses, lambda model, x: model(x[:, :2], x[:, 2:])),
}


@pytest.mark.parametrize("parts", [1, 3], ids=["one example", "three examples"])
@pytest.mark.parametrize("kind", CANCELLING)
def test_what_cancels_is_added_with_the_norm_that_was_measured(kind: str, parts: int) -> None:
    # Whole numbers whose sum is 0 to the last bit, until each is multiplied by a factor below 1.
    make, use = CANCELLING[kind]
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randint(1, 2**21, (2, WIDE), generator=generator).float()
    tokens = torch.stack([first, second, -(first + second)])
    x = tokens[None] if parts == 1 or kind == "two uses" else tokens[:, None]
    records = torch.zeros(len(x), dtype=torch.int64)
    model = make()
    clipper = BookKeeping(model, clipping_norm=0.1)
    found = clipper.add(lambda: use(model, x).flatten(1).sum(1), records)
    assert float(found.norms) <= 1e-3
    assert float(whole(clipper.sums).double().norm()) <= 0.1


@pytest.mark.parametrize("positions", [1, 2])
@pytest.mark.parametrize("norm", [1e-2, 1e-4])
def test_gradients_whose_squares_vanish_count_beside_large_inputs(
    positions: int, norm: float
) -> None:
    model = nn.Linear(300, 1000, bias=False)
    x = torch.full((1, positions, 300), 1e18)
    weights = torch.full((1, positions, 1), 2e-23)
    weights[:, 1:] = 1e-18  # of inputs that are none
    x[:, 1:] = 1e-3
    clipper = BookKeeping(model, clipping_norm=norm)
    found = clipper.add(lambda: (model(x) * weights).sum((1, 2)), torch.tensor([0]))
    assert float(found.norms) == pytest.approx(0.010954, rel=1e-3)
    assert float(whole(clipper.sums).double().norm()) <= norm


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_clipping_norm_whose_squares_vanish_is_refused(backend: Backend) -> None:
    model, x = nn.Linear(4, 1), torch.randn(20, 4)
    with pytest.raises(ValueError, match="clipping_norm is 1e-26; expected at least"):
        backend(model, clipping_norm=1e-26)
    least = 1e-8
    clipper = backend(model, clipping_norm=least)
    clipper.add(lambda: model(x).squeeze(1).square(), torch.arange(20))
    for example in range(20):
        alone = backend(model, clipping_norm=least)
        alone.add(
            lambda example=example: model(x[example : example + 1]).squeeze(1).square() * 1e-7,
            torch.zeros(1).long(),
        )  # type: ignore[misc]
        assert float(whole(alone.sums).double().norm()) <= least
