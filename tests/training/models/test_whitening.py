"""Whitened layers: they begin as they were, see what public inputs vary in alike, and merge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from hushdoc_training.models import adapters, whitening
from hushdoc_training.models.whitening import DIRECTIONS, Whitened


def public_inputs(tokens: int, width: int, *, seed: int = 1) -> torch.Tensor:
    """Returns inputs that vary in some directions ten times as much as in others."""
    generator = torch.Generator().manual_seed(seed)
    turned = torch.linalg.qr(torch.randn(width, width, generator=generator)).Q
    mix = turned * torch.logspace(0, -1, width)
    return torch.randn(tokens, width, generator=generator) @ mix.T + 5


def whitened(width: int = 12) -> tuple[nn.Linear, Whitened, torch.Tensor]:
    torch.manual_seed(0)
    layer, inputs = nn.Linear(width, 3), public_inputs(400, width)
    return layer, Whitened(layer, inputs), inputs


def test_public_inputs_become_white() -> None:
    _, made, inputs = whitened()
    seen = ((inputs - made.mean) @ made.directions.T).numpy()
    assert seen.shape == (400, 12)
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(seen.T), np.eye(12) / 12, atol=1e-4)


def test_it_begins_as_the_layer_and_merges_into_it() -> None:
    layer, made, inputs = whitened()
    before = layer(inputs).detach()
    assert torch.equal(made(inputs), before)
    nn.init.normal_(made.change.weight)
    nn.init.normal_(made.change.bias)
    assert [name for name, value in made.named_parameters() if value.requires_grad] == [
        "change.weight",
        "change.bias",
    ]
    expected = made(inputs).detach()
    assert made.merged() is layer
    torch.testing.assert_close(layer(inputs), expected, rtol=1e-4, atol=1e-4)


def test_moves_are_what_a_step_of_the_change_makes_of_the_layer() -> None:
    layer, made, inputs = whitened()
    weight, bias = (value.detach().clone() for value in (layer.weight, layer.bias))
    layer.requires_grad_(True)
    made(inputs[:5]).square().sum().backward()
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None
    gradients = {"classifier.weight": layer.weight.grad, "classifier.bias": layer.bias.grad}
    told = whitening.moves(gradients, {"classifier": made})
    torch.optim.SGD(made.change.parameters(), lr=0.01).step()
    made.merged()
    for name, before, after in (("weight", weight, layer.weight), ("bias", bias, layer.bias)):
        torch.testing.assert_close(
            -0.01 * told[f"classifier.{name}"], after.detach() - before, rtol=1e-3, atol=1e-5
        )
    assert whitening.moves({"other": bias}, {"classifier": made}) == {"other": bias}


def test_directions_without_variance_are_left_out() -> None:
    inputs = public_inputs(400, 4)
    inputs = torch.cat([inputs, inputs[:, :2], torch.ones(400, 3)], 1)
    _, directions = whitening.whitening(inputs)
    assert len(directions) == 4
    assert torch.isfinite(directions).all()
    assert len(whitening.whitening(public_inputs(400, DIRECTIONS + 9))[1]) == DIRECTIONS


def test_inputs_that_do_not_vary_are_refused() -> None:
    for inputs in (torch.ones(5, 4), torch.ones(1, 4)):
        with pytest.raises(ValueError, match="do not vary"):
            whitening.whitening(inputs)


def test_the_block_leaves_no_trace() -> None:
    model = nn.Sequential()
    model.add_module("classifier", nn.Linear(12, 3))
    names = list(model.state_dict())
    with adapters.merging(model):
        whitening.adapt(model, public_inputs(100, 12))
        assert isinstance(model.classifier, Whitened)
    assert list(model.state_dict()) == names
