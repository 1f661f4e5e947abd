"""Automatic and layer-wise clipping: one bound for a record, whatever the kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hushdoc_training.privacy.clipping import BookKeeping, Clipper, OneByOne, OpacusHooks
from hushdoc_training.privacy.clipping.contract import CLIPPINGS, STABILITY, Clipping

BACKENDS = (BookKeeping, OneByOne, OpacusHooks)
Backend = Callable[..., Clipper]
SCALES = torch.tensor([1e-6, 1e-3, 1.0, 1e3, 1e8])


def model_of() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 3))


def added(backend: Backend, kind: str, *, norm: float, large: bool = False) -> list[dict[str, Any]]:
    """Returns the sums that each of five records, of very different lengths, leaves by itself."""
    model = model_of()
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    found = []
    for example, scale in enumerate(SCALES):
        clipper = backend(model, clipping_norm=norm, clipping=kind)
        part = lambda e=example, s=scale: model(x[e : e + 1]).square().sum(1) * s  # noqa: E731
        clipper.add_large([part]) if large else clipper.add(part, torch.tensor([0]))
        found.append({name: total.double() for name, total in clipper.sums.items()})
    return found


def lengths(sums: dict[str, Any]) -> list[float]:
    return [float(total.norm()) for total in sums.values()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", CLIPPINGS)
@pytest.mark.parametrize("norm", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("large", [False, True])
def test_no_record_is_longer_than_the_norm(
    backend: Backend, kind: str, norm: float, large: bool
) -> None:
    found = [math.hypot(*lengths(sums)) for sums in added(backend, kind, norm=norm, large=large)]
    assert max(found) <= norm
    assert max(found) > 0.98 * norm or kind == "automatic" and norm < STABILITY


@pytest.mark.parametrize("backend", BACKENDS)
def test_automatic_clipping_divides_by_the_norm_and_a_constant(backend: Backend) -> None:
    true = added(backend, "flat", norm=1e12)
    for raw, clipped in zip(true, added(backend, "automatic", norm=0.3), strict=True):
        norm = math.hypot(*lengths(raw))
        for name, gradient in raw.items():
            expected = gradient * 0.3 / (norm + STABILITY)
            torch.testing.assert_close(clipped[name], expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_layerwise_clipping_cuts_each_parameter_to_its_share(backend: Backend) -> None:
    true = added(backend, "flat", norm=1e12)
    for raw, clipped in zip(true, added(backend, "layerwise", norm=0.3), strict=True):
        for name, gradient in raw.items():
            expected = gradient * min(1.0, 0.15 / float(gradient.norm()))  # four parameters
            torch.testing.assert_close(clipped[name], expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", CLIPPINGS)
def test_a_record_that_is_not_finite_adds_nothing(kind: str) -> None:
    squares = {"a": torch.tensor([1.0, torch.inf, 1.0]), "b": torch.tensor([1.0, 1.0, torch.nan])}
    for factors in Clipping(0.5, kind).factors(squares).values():
        assert factors[0] > 0
        assert not factors[1:].any()


@pytest.mark.parametrize("kind", CLIPPINGS)
@pytest.mark.parametrize("backend", [BookKeeping, OpacusHooks])
@pytest.mark.parametrize("large", [torch.inf, 1.6e19])  # whose squares are finite, one by one
def test_a_batch_of_all_or_nothing_adds_nothing(backend: Backend, kind: str, large: float) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    clipper = backend(model, clipping_norm=0.5, clipping=kind)
    for value, nonfinite in ((large, 1), (2.0, 0)):
        inputs = torch.tensor([[1.0], [value]])
        losses = lambda x=inputs: model(x).squeeze(1)  # noqa: E731
        found = clipper.add(losses, torch.arange(2), or_nothing=True)
        assert found.nonfinite == nonfinite
        assert any(total.any() for total in clipper.sums.values()) == (not nonfinite)


@pytest.mark.parametrize("kind", CLIPPINGS)
@pytest.mark.parametrize("number", [1, 3, 250])
def test_what_is_noted_is_what_is_applied(kind: str, number: int) -> None:
    names = [str(index) for index in range(number)]
    clipping = Clipping(0.1, kind)
    factors = clipping.factors({name: torch.full((1,), 1e12) for name in names})
    applied = math.hypot(*(float(factors[name]) * 1e6 for name in names))
    assert clipping.reach(names) == pytest.approx(0.1, rel=1e-12)
    assert 0.099 < applied <= 0.1


def test_a_share_whose_squares_vanish_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least"):
        BookKeeping(model_of(), clipping_norm=1.5e-8, clipping="layerwise")
    with pytest.raises(ValueError, match="clipping is 'rows'"):
        BookKeeping(model_of(), clipping_norm=1.0, clipping="rows")
