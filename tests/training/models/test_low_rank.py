"""Factors of low rank: what they add, their gradients, and the layer that they are merged into."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LayoutLMv3Config, LayoutLMv3ForTokenClassification

from hushdoc.errors import InputError
from hushdoc_training.models import adapters, low_rank
from hushdoc_training.models.low_rank import LowRank


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 4))


def adapted(network: nn.Module, rank: int) -> list[LowRank]:
    low_rank.adapt(network, rank)
    return [layer for layer in network.modules() if isinstance(layer, LowRank)]


def test_factors_add_nothing_before_a_step() -> None:
    model, inputs = network(), torch.randn(3, 7, 6)
    before = model(inputs)
    first, _ = adapted(model, 2)
    assert torch.equal(model(inputs), before)
    assert [tuple(value.shape) for value in (first.down.weight, first.up.weight)] == [
        (2, 6),
        (5, 2),
    ]
    frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
    assert frozen == {"0.layer.weight", "0.layer.bias", "3.layer.weight", "3.layer.bias"}


def test_gradients_are_those_of_the_papers_formula() -> None:
    """Hu et al. 2022: with h = W x + B A x, dL/dB = g (A x)^T and dL/dA = B^T g x^T."""
    layer = LowRank(nn.Linear(6, 5), 2)
    nn.init.normal_(layer.up.weight)
    inputs, gradient = torch.randn(6), torch.randn(5)
    layer(inputs).backward(gradient)
    down, up = layer.down.weight, layer.up.weight
    torch.testing.assert_close(up.grad, torch.outer(gradient, down @ inputs))
    torch.testing.assert_close(down.grad, torch.outer(up.T @ gradient, inputs))
    assert layer.layer.weight.grad is None


def test_a_merged_model_answers_as_the_one_with_factors() -> None:
    model, inputs = network().double(), torch.randn(3, 7, 6).double()
    whole = copy.deepcopy(model)
    with adapters.merging(model):
        for layer in adapted(model, 2):
            nn.init.normal_(layer.up.weight)
        answers = model(inputs)
    assert [type(layer) for layer in model] == [type(layer) for layer in whole]
    torch.testing.assert_close(model(inputs), answers)
    moved = {
        name
        for name, value in model.named_parameters()
        if not torch.equal(value, whole.get_parameter(name))
    }
    assert moved == {"0.weight", "3.weight"}
    difference = model[0].weight - whole[0].weight
    assert torch.linalg.matrix_rank(difference, rtol=1e-9) == 2


def test_a_model_is_merged_where_training_fails_too() -> None:
    model = network()
    adapted(model, 1)
    with pytest.raises(KeyboardInterrupt), adapters.merging(model):
        raise KeyboardInterrupt
    assert not any(isinstance(layer, LowRank) for layer in model.modules())


def test_a_rank_above_the_narrowest_layer_changes_nothing() -> None:
    model = network()
    adapted(model, 4)
    model = network()
    with pytest.raises(InputError, match="lora:5 is above 4, .*Choose lora:4"):
        low_rank.adapt(model, 5)
    assert [type(layer) for layer in model][0] is nn.Linear


def test_omitted_layers_stay_as_they_are() -> None:
    model = network()
    low_rank.adapt(model, 1, omitted=[model[0].weight])
    assert [type(model[number]) for number in (0, 3)] == [nn.Linear, LowRank]


def test_rank_8_of_a_layoutlmv3_of_base_size_is_a_percent_of_its_parameters() -> None:
    with torch.device("meta"):
        inner: Any = LayoutLMv3ForTokenClassification(LayoutLMv3Config())
        whole = sum(value.numel() for value in inner.parameters())
        low_rank.adapt(inner.base_model.encoder.layer, 8)
    factors = [layer for layer in inner.modules() if isinstance(layer, LowRank)]
    trained = sum(part.weight.numel() for layer in factors for part in (layer.down, layer.up))
    assert trained == 12 * 8 * (4 * (768 + 768) + 2 * (768 + 3072))
    assert trained / whole == pytest.approx(0.01, abs=1e-3)
