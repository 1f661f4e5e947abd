from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from exact_sums import self_test
from torch import nn
from torch.nn import functional as F  # noqa: N812

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import BookKeeping, OneByOne, OpacusHooks, check
from hushdoc_training.privacy.clipping import functions as layers

EXAMPLES = 5
BACKENDS = (BookKeeping, OneByOne, OpacusHooks)


class Named(nn.Module):
    """A layer under a name, and one parameter of its own."""

    def __init__(self, layer: nn.Module, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.odd, self.function = layer, function
        self.own = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.odd, x, self.own)


def add(model: nn.Module, x: torch.Tensor) -> Any:
    clipper = BookKeeping(model, clipping_norm=1.0)
    return clipper.add(lambda: model(x).flatten(1).sum(1), torch.arange(len(x)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(8), nn.SyncBatchNorm(8), nn.InstanceNorm1d(8, track_running_stats=True)],
)
def test_layers_with_batch_statistics_are_refused_by_name(
    backend: Callable[..., Any], layer: nn.Module
) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(layer))
    with pytest.raises(PrivacyError, match=r"'1\.0'.*GroupNorm"):
        backend(model, clipping_norm=1.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_frozen_model_is_refused(backend: Callable[..., Any]) -> None:
    with pytest.raises(PrivacyError, match="frozen"):
        backend(nn.Linear(2, 2).requires_grad_(False), clipping_norm=1.0)


@pytest.mark.parametrize("clipping_norm", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clipping_norm_that_bounds_nothing_is_refused(clipping_norm: float) -> None:
    with pytest.raises(ValueError, match="clipping_norm"):
        BookKeeping(nn.Linear(2, 2), clipping_norm=clipping_norm)


def test_unknown_layers_are_refused_by_name() -> None:
    model = Named(nn.LSTM(8, 8, batch_first=True), lambda odd, x, own: odd(x)[0] + own)
    with pytest.raises(PrivacyError, match=r"odd\.weight_ih_l0.*one-by-one"):
        add(model, torch.randn(EXAMPLES, 3, 8))


@pytest.mark.parametrize(
    "function",
    [
        lambda odd, x, own: torch.einsum("btd,d->bt", x, own),
        lambda odd, x, own: torch.cat([x.flatten(0, 1), own[None]], 0)[:EXAMPLES],
        lambda odd, x, own: F.linear(x, torch.outer(x[0, 0], own)) + own,
        lambda odd, x, own: own.expand(EXAMPLES, 3, 8).clone().add_(x),
        lambda odd, x, own: torch.fft.fft(x * 1.0 + 0j).real + torch.kron(x, own),
    ],
    ids=["einsum", "joined-along-the-batch", "outer", "in-place", "kron"],
)
def test_unknown_uses_of_a_parameter_are_refused_by_name(
    function: Callable[..., torch.Tensor],
) -> None:
    with pytest.raises(PrivacyError, match="'own'"):
        add(Named(nn.Identity(), function), torch.randn(EXAMPLES, 3, 8))


def test_a_weight_that_differs_from_example_to_example_is_refused() -> None:
    def function(odd: nn.Module, x: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        return F.linear(x, odd(x)[0], own)

    with pytest.raises(PrivacyError, match="'own'.*from example to example"):
        add(Named(nn.Linear(8, 8), function), torch.randn(EXAMPLES, 8, 8))


def test_tokens_picked_by_a_mask_are_refused_even_where_the_count_fits() -> None:
    x, mask = torch.randn(EXAMPLES, 3, 8), torch.zeros(EXAMPLES, 3, dtype=torch.bool)
    mask[0], mask[1, :2] = True, True  # 5 tokens of 5 examples, but not one of each

    def function(odd: nn.Module, x: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        return odd(x[mask]).unsqueeze(1)

    with pytest.raises(PrivacyError, match=r"odd\.weight.*picked by their content"):
        add(Named(nn.Linear(8, 8), function), x)


def test_a_batch_that_is_not_the_first_axis_is_refused() -> None:
    model = Named(nn.Linear(8, 8), lambda odd, x, own: odd(x.transpose(0, 1)).transpose(0, 1))
    with pytest.raises(PrivacyError, match=r"odd\.weight.*first axis"):
        add(model, torch.randn(EXAMPLES, 3, 8))


def test_embeddings_that_couple_examples_are_refused() -> None:
    for setting in ({"max_norm": 1.0}, {"scale_grad_by_freq": True}):
        model = nn.Embedding(9, 4, **setting)
        with pytest.raises(PrivacyError, match="couple"):
            add(model, torch.randint(0, 9, (EXAMPLES, 3)))


def test_parameters_inside_a_custom_function_are_refused() -> None:
    class Opaque(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, own)
            return x * own

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            x, own = ctx.saved_tensors
            return gradient * own, (gradient * x).sum((0, 1))

    model = Named(nn.Identity(), lambda odd, x, own: Opaque.apply(x, own))
    with pytest.raises(PrivacyError, match="'own'.*past the book-keeping"):
        add(model, torch.randn(EXAMPLES, 3, 8))
    assert model.own.grad is None


def test_losses_that_are_not_one_per_example_are_refused() -> None:
    model = nn.Linear(8, 2)
    x = torch.randn(EXAMPLES, 8)
    for backend in BACKENDS:
        clipper = backend(model, clipping_norm=1.0)
        with pytest.raises(PrivacyError, match="one loss for every example"):
            clipper.add(lambda: model(x).mean(), torch.arange(EXAMPLES))


def test_records_must_fit_the_examples() -> None:
    model, x = nn.Linear(8, 2), torch.randn(EXAMPLES, 8)
    clipper = BookKeeping(model, clipping_norm=1.0)
    for records, weights, problem in (
        (torch.arange(EXAMPLES).float(), None, "int64"),
        (torch.arange(EXAMPLES) - 2, None, "-2"),
        (torch.arange(EXAMPLES), torch.ones(2), "weights"),
    ):
        with pytest.raises(ValueError, match=problem):
            clipper.add(lambda: model(x).sum(1), records, weights=weights)


def losses_of(
    model: nn.Module, loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> Callable[[Sequence[int]], torch.Tensor]:
    return lambda examples: loss(model(x[list(examples)]))


def test_the_self_test_refuses_losses_that_couple_examples() -> None:
    model, x = nn.Linear(8, 3), torch.randn(EXAMPLES, 4, 8)
    x[2:] *= 3
    coupled: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "mean over the batch's tokens": lambda y: y.square().sum((1, 2)) / y.square().sum(),
        "negatives from the batch": lambda y: F.cross_entropy(
            y[:, 0] @ y[:, 1].t(), torch.arange(len(y)), reduction="none"
        ),
        "batch statistics": lambda y: (y - y.mean(0)).square().sum((1, 2)),
    }
    for loss in coupled.values():
        for backend in (BookKeeping, OneByOne):
            with pytest.raises(PrivacyError, match="depends on other examples"):
                check(
                    backend(model, clipping_norm=1.0),
                    losses_of(model, loss, x),
                    num_examples=EXAMPLES,
                )
    fine = losses_of(model, lambda y: y.square().sum((1, 2)), x)
    assert self_test(model, fine, EXAMPLES) == frozenset()


def test_the_self_test_names_a_layer_whose_gradients_are_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A clipper that forgets a part of a sum must not start.
    model, x = (
        nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
        torch.randn(EXAMPLES, 8),
    )
    fine = losses_of(model, lambda y: y.square().sum(1), x)
    self_test(model, fine, EXAMPLES)
    plain = layers._add_affine

    def forgetful(grouping: Any, slots: Any, kernel: Any, per_example: Any) -> None:
        def less(*arguments: Any) -> Any:
            return [None if g is None else 0.9 * g for g in kernel(*arguments)]

        plain(grouping, slots, less, per_example)

    monkeypatch.setattr(layers, "_add_affine", forgetful)
    with pytest.raises(PrivacyError, match=r"'1\.(weight|bias)' is off by 1\.0e-01"):
        self_test(model, fine, EXAMPLES)


def test_the_self_test_refuses_what_it_cannot_compare() -> None:
    model, x = nn.Linear(8, 3), torch.randn(EXAMPLES, 8)
    clipper = BookKeeping(model, clipping_norm=1.0)
    chance = losses_of(model, lambda y: (y * torch.rand_like(y)).sum(1), x)
    with pytest.raises(PrivacyError, match="differ from one forward pass"):
        check(clipper, chance, num_examples=EXAMPLES)
    undefined = losses_of(model, lambda y: y.sum(1) * float("nan"), x)
    with pytest.raises(PrivacyError, match="not finite"):
        check(clipper, undefined, num_examples=EXAMPLES)
    with pytest.raises(ValueError, match="at least 2"):
        check(clipper, chance, num_examples=1)


def test_the_self_test_names_parameters_that_never_learn() -> None:
    model = Named(nn.Linear(8, 3), lambda odd, x, own: odd(x))
    unused = self_test(
        model, losses_of(model, lambda y: y.square().sum(1), torch.randn(EXAMPLES, 8)), EXAMPLES
    )
    assert unused == frozenset({"own"})
