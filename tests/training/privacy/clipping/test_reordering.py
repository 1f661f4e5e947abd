"""Examples in another order: refused before a layer wherever the order may depend on content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from exact_sums import assert_exact, self_test
from torch import nn
from torch.nn import functional as F  # noqa: N812

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import BookKeeping

EXAMPLES, TOKENS, WIDTH = 6, 5, 4
Layer = Callable[[torch.Tensor], torch.Tensor]
Function = Callable[[torch.Tensor, torch.Tensor, Layer], torch.Tensor]


class Ordered(nn.Module):
    """A layer inside of a function that may move examples; also handed how long each example is."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.inner, self.outer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        moved = self.function(x, lengths, lambda x: torch.tanh(self.inner(x)))
        return self.outer(moved).flatten(1).sum(1)


def wide(order: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return order.view(-1, *[1] * (x.dim() - 1)).expand_as(x)


def by_setting(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[order] = x
    return y


def by_masks(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[lengths > 3], x[lengths <= 3]])


# Each sorts examples by length, which changes nothing on examples of equal lengths.
MOVING: dict[str, Function] = {
    "index": lambda x, n, f: f(x[n.argsort(stable=True)]),
    "index with another": lambda x, n, f: f(x[n.argsort(stable=True)[:, None], torch.arange(3)]),
    "index after dots": lambda x, n, f: f(x * n[..., n.argsort(stable=True)].view(-1, 1, 1)),
    "list": lambda x, n, f: f(x[sorted(range(len(x)), key=n.tolist().__getitem__)]),
    "list that became a tensor": lambda x, n, f: f(
        x[torch.tensor(sorted(range(len(x)), key=n.tolist().__getitem__))]
    ),
    "sort": lambda x, n, f: f(x * n.sort(dim=0).values.view(-1, 1, 1)),
    "msort": lambda x, n, f: f(x * torch.msort(n).view(-1, 1, 1)),
    "topk": lambda x, n, f: f(x[n.topk(len(n)).indices]),
    "index_select": lambda x, n, f: f(x.index_select(0, n.argsort(stable=True))),
    "negative axis": lambda x, n, f: f(torch.index_select(x, -3, n.argsort(stable=True))),
    "gather": lambda x, n, f: f(torch.gather(x, 0, wide(n.argsort(stable=True), x))),
    "take_along_dim": lambda x, n, f: f(
        torch.take_along_dim(x, n.argsort(stable=True).view(-1, 1, 1), dim=0)
    ),
    "embedding": lambda x, n, f: f(
        F.embedding(n.argsort(stable=True), x.flatten(1)).view_as(x) * 1.0
    ),
    "take": lambda x, n, f: f(
        torch.take(x, torch.arange(x.numel()).view_as(x)[n.argsort(stable=True)])
    ),
    "setting": lambda x, n, f: f(by_setting(x, n.argsort(stable=True))),
    "index_put": lambda x, n, f: f(
        torch.index_put(torch.zeros_like(x), (n.argsort(stable=True),), x)
    ),
    "index_copy": lambda x, n, f: f(torch.zeros_like(x).index_copy(0, n.argsort(stable=True), x)),
    "index_add": lambda x, n, f: f(torch.zeros_like(x).index_add(0, n.argsort(stable=True), x)),
    "index_add in place": lambda x, n, f: f(
        torch.zeros(x.shape).index_add_(0, n.argsort(stable=True), x)
    ),
    "scatter": lambda x, n, f: f(
        torch.zeros_like(x).scatter(0, wide(n.argsort(stable=True), x), x)
    ),
    "scatter_add": lambda x, n, f: f(
        torch.zeros_like(x).scatter_add(0, wide(n.argsort(stable=True), x), x)
    ),
    "masked_scatter": lambda x, n, f: f(
        torch.zeros_like(x).masked_scatter((n > 0).view(-1, 1, 1).expand_as(x), x)
    ),
    "masks": lambda x, n, f: f(by_masks(x, n)),
    "masked_select": lambda x, n, f: f(
        torch.masked_select(x, (n > 0).view(-1, 1, 1)).view(-1, TOKENS, WIDTH)
    ),
    "where": lambda x, n, f: f(x[torch.where(n > 0)]),
    "nonzero": lambda x, n, f: f(x[(n > 0).nonzero().squeeze(1)]),
    "unique": lambda x, n, f: f(x * torch.unique(n * 0 + torch.arange(len(n)) + 1).view(-1, 1, 1)),
    "repeats": lambda x, n, f: f(x.repeat_interleave(n * 0 + 1, 0)),
    "packed": lambda x, n, f: f(
        nn.utils.rnn.pack_padded_sequence(
            x, n.clamp(max=TOKENS), batch_first=True, enforce_sorted=False
        ).data
    ),
}
# And these move them in every batch alike.
TURNING: dict[str, Function] = {
    "flip": lambda x, n, f: f(x.flip(0)).flip(0),
    "roll": lambda x, n, f: f(x.roll(1, 0)).roll(-1, 0),
    "halves": lambda x, n, f: torch.cat(list(f(torch.cat(x.split(3)[::-1])).split(3))[::-1])[
        : len(x)
    ],
    "doubled": lambda x, n, f: f(torch.cat([x, 2 * x])).view(2, len(x), TOKENS, WIDTH).sum(0),
    "time first": lambda x, n, f: f(x.transpose(0, 1)).transpose(0, 1),
    "time first, as many as examples": lambda x, n, f: f(
        x.repeat(1, 6, 1).transpose(0, 1)
    ).transpose(0, 1),
    "other examples": lambda x, n, f: f(x) + 0.1 * f(x).cumsum(0),
}
# What models do all the time leaves examples where they are.
STAYING: dict[str, Function] = {
    "pooling": lambda x, n, f: f(x[torch.arange(len(x)), (n - 1).clamp(max=TOKENS - 1)])[:, None],
    "pooling of several": lambda x, n, f: f(
        x[torch.arange(len(x))[:, None], torch.stack([n * 0, n * 0 + 1], 1)]
    ),
    "index_select in order": lambda x, n, f: f(x.index_select(0, torch.arange(len(x)))),
    "first token": lambda x, n, f: f(x[:, 0])[:, None],
    "dots": lambda x, n, f: f(x[..., torch.arange(WIDTH)]),
    "new axis": lambda x, n, f: f(x[None][0]),
    "tokens in another order": lambda x, n, f: f(x[:, torch.tensor([3, 1, 0, 2, 4])]),
    "gather of tokens": lambda x, n, f: f(
        torch.gather(x, 1, (n % TOKENS).view(-1, 1, 1).expand(-1, 1, WIDTH))
    ),
    "sort of tokens": lambda x, n, f: f(x.sort(dim=1).values),
    "topk of channels": lambda x, n, f: f(x.topk(WIDTH).values),
    "one-hot": lambda x, n, f: f(
        x + torch.zeros(len(x), WIDTH).scatter_(1, (n % WIDTH)[:, None], 1.0)[:, None]
    ),
    "filled by a mask": lambda x, n, f: f(_filled(x)),
    "shifted": lambda x, n, f: f(_shifted(x)),
    "of a table": lambda x, n, f: f(x + torch.eye(60)[n, :WIDTH][:, None]),
    "of a table by axis": lambda x, n, f: f(x + torch.eye(60).index_select(0, n)[:, None, :WIDTH]),
    "unbound": lambda x, n, f: f(torch.stack([x, 2 * x]).unbind(0)[1]),
    "by number": lambda x, n, f: f(torch.stack([x, 2 * x])[1]),
    "repeated examples": lambda x, n, f: f(x.repeat_interleave(2, 0)).view(len(x), -1, WIDTH),
    "nothing of the same type": lambda x, n, f: f(x + x.new_zeros(TOKENS, WIDTH)),
}


def _filled(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[x < -1] = -1.0
    return y


def _shifted(x: torch.Tensor) -> torch.Tensor:
    y = x.new_zeros(x.shape)
    y[:, 1:] = x[:, :-1].clone()
    y[..., 0] = 1.0
    return y


def sample(model: nn.Module, *, equal: int) -> Callable[[Sequence[int]], torch.Tensor]:
    """Losses of examples of which the first ones have equal lengths."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(40, TOKENS, WIDTH, generator=generator)
    x *= 5 * torch.rand(40, 1, 1, generator=generator)
    lengths = torch.randint(1, 50, (40,), generator=generator)
    lengths[:equal] = 50
    return lambda examples: (model(x[list(examples)], lengths[list(examples)]) - 1).square()


@pytest.mark.parametrize("function", MOVING)
def test_examples_that_may_have_moved_are_refused_before_a_layer(function: str) -> None:
    torch.manual_seed(0)
    model = Ordered(MOVING[function])
    losses = sample(model, equal=EXAMPLES)
    clipper = BookKeeping(model, clipping_norm=0.1)
    with pytest.raises(PrivacyError, match=r"'inner\.weight'.*or put in another order"):
        clipper.add(lambda: losses(range(20, 36)), torch.arange(16))


@pytest.mark.parametrize("function", [name for name in MOVING if "list" not in name])
def test_the_self_test_refuses_an_order_by_content_that_changes_nothing(function: str) -> None:
    # With all lengths alike; what depends on content in Python can't be told from other indices,
    # and is refused when it first moves an example.
    torch.manual_seed(0)
    model = Ordered(MOVING[function])
    with pytest.raises(PrivacyError):
        self_test(model, sample(model, equal=EXAMPLES), EXAMPLES)


@pytest.mark.parametrize("equal", [0, EXAMPLES])
@pytest.mark.parametrize("function", TURNING)
def test_the_self_test_refuses_examples_that_always_move(function: str, equal: int) -> None:
    torch.manual_seed(0)
    model = Ordered(TURNING[function])
    with pytest.raises(PrivacyError):
        self_test(model, sample(model, equal=equal), EXAMPLES)


@pytest.mark.parametrize("function", STAYING)
def test_examples_that_stay_where_they_are_are_exact(function: str) -> None:
    torch.manual_seed(0)
    model = Ordered(STAYING[function])
    losses = sample(model, equal=0)
    self_test(model, losses, EXAMPLES)
    for examples in (1, TOKENS, 16):
        assert_exact(model, partial(losses, range(examples)), examples)


Losses = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def by_token(y: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    mask = torch.arange(TOKENS) < lengths[:, None]
    picked = y[mask].square().sum(1)
    return torch.zeros(len(y)).index_add(0, mask.nonzero()[:, 0], picked)


def by_split(y: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    picked = y[torch.arange(TOKENS) < lengths[:, None]].square().sum(1)
    return torch.stack([part.mean() for part in picked.split(lengths.tolist())])


def and_back(y: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    order = lengths.argsort(stable=True)
    return y[order].square().sum((1, 2))[order.argsort()]


LOCAL: dict[str, Losses] = {"tokens": by_token, "split": by_split, "and back": and_back}
ELSEWHERE: dict[str, Losses] = {
    "sorted": lambda y, n: y[n.argsort(stable=True)].square().sum((1, 2)),
    "sorted afterwards": lambda y, n: y.square().sum((1, 2))[n.argsort(stable=True)],
    "two examples": lambda y, n: y.square().sum((1, 2))[[1, 0, *range(2, len(y))]],
    "through what is between": lambda y, n: (y + y[n.argsort(stable=True)]).square().sum((1, 2)),
}


@pytest.fixture
def tagger() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 3), nn.LayerNorm(3), nn.Linear(3, 3))


def tagged() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(16, TOKENS, WIDTH, generator=generator)
    return x * 9 * torch.rand(16, 1, 1, generator=generator), torch.arange(16).flip(0) % TOKENS + 1


@pytest.mark.parametrize("losses", LOCAL)
def test_losses_picked_within_their_examples_are_exact(losses: str, tagger: nn.Module) -> None:
    x, lengths = tagged()
    records = torch.tensor([0, 0, *range(1, 14), -1])
    assert_exact(tagger, lambda: LOCAL[losses](tagger(x), lengths), records)


@pytest.mark.parametrize("losses", ELSEWHERE)
def test_losses_in_another_order_are_refused(losses: str, tagger: nn.Module) -> None:
    x, lengths = tagged()
    clipper = BookKeeping(tagger, clipping_norm=0.1)
    with pytest.raises(PrivacyError, match="in the examples' order"):
        clipper.add(lambda: ELSEWHERE[losses](tagger(x), lengths), torch.arange(16))


def test_a_picked_loss_that_is_not_finite_is_left_out(tagger: nn.Module) -> None:
    x, lengths = tagged()
    x[3] = float("inf")
    clipper = BookKeeping(tagger, clipping_norm=0.1)
    found = clipper.add(lambda: by_token(tagger(x), lengths), torch.arange(16))
    assert found.nonfinite == 1


def test_what_is_between_leaves_its_gradients_once(tagger: nn.Module) -> None:
    # Examples are picked of what a layer gives, and that layer's gradients are asked for twice
    # more.
    x, lengths = tagged()

    def losses() -> torch.Tensor:
        y = tagger[0](x)
        return by_token(y, lengths) + tagger[2](tagger[1](y)).square().sum((1, 2))

    assert_exact(tagger, losses, 16)
