"""Attention in a graph: one operator of ONNX, with the answers of the model's own steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hushdoc_tiny_models as tiny
import onnx
import pytest
import torch
from hushdoc_tiny import sealed, sealed_variant
from transformers import T5Config
from transformers.models.t5.modeling_t5 import eager_attention_forward

from hushdoc_export import attention, quantize
from hushdoc_export.quantize import VARIANTS


def operators(proto: Any) -> Counter[str]:
    return Counter(node.op_type for node in proto.graph.node)


@pytest.fixture(
    scope="module",
    params=[
        ("layoutlm", 1),  # whose graph other tests need, too
        pytest.param(("layoutlm", 2), marks=pytest.mark.slow),
        ("layoutlmv3", 2),
    ],
    ids=["layoutlm-1", "layoutlm-2", "layoutlmv3-2"],
)
def model(request: pytest.FixtureRequest) -> Any:
    architecture, layers = request.param
    return tiny.model(architecture, num_hidden_layers=layers)


@pytest.fixture(scope="module")
def traced(model: Any) -> Any:
    """Returns the graph of the model; nobody changes it."""
    return quantize.optimized(tiny.traceable(model).traced(), "basic")


def test_each_layer_or_head_has_one_operator_and_no_softmax_is_left(
    model: Any, traced: Any
) -> None:
    config = model.inner.config
    parts = config.num_attention_heads if config.model_type == "layoutlmv3" else 1
    assert operators(traced)["Attention"] == parts * config.num_hidden_layers
    assert operators(traced)["Softmax"] == 0
    masks = {node.input[3] for node in traced.graph.node if node.op_type == "Attention"}
    assert all(masks)
    assert len(masks) == parts, "every layer reads one sum of mask and places, computed once"


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_head_by_head_is_what_transformers_computes_at_once(masked: bool, biased: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    states = [torch.randn(2, 3, 7, 4, generator=generator) for _ in range(3)]
    mask = torch.randn(2, 1, 7, 7, generator=generator) if masked else None
    bias = torch.randn(1, 3, 7, 7, generator=generator) if biased else None
    how = {"scaling": 0.7, "position_bias": bias}
    expected, _ = eager_attention_forward(torch.nn.Module().eval(), *states, mask, **how)
    found, _ = attention.by_head(None, *states, mask, **how)
    torch.testing.assert_close(found, expected)


def test_models_compute_their_own_attention_again_once_they_are_traced() -> None:
    config = T5Config(num_layers=1, d_model=8, d_kv=4, num_heads=2, attn_implementation="eager")
    with attention.computed_by_head(config):
        assert config._attn_implementation == attention.BY_HEAD
    assert config._attn_implementation == "eager"


def test_bins_of_distances_are_found_at_export(traced: Any) -> None:
    assert operators(traced)["Log"] == 0


def test_the_variant_for_accelerators_keeps_the_steps() -> None:
    fused, apart = (
        operators(onnx.load(folder / VARIANTS[name].entry))
        for name, folder in (("fp32", sealed()), ("fp16", sealed_variant("fp16")))
    )
    assert apart["Attention"] == fused["Softmax"] == 0
    assert apart["Softmax"] == fused["Attention"] > 0


def test_sums_and_normalisations_stay_apart_in_int8(model: Any, traced: Any) -> None:
    found = operators(quantize.optimized(quantize.int8(traced, per_channel=True), "extended"))
    assert found["LayerNormalization"] >= 2 * model.inner.config.num_hidden_layers
    assert found["SkipLayerNormalization"] == 0


@pytest.mark.parametrize("places", [0, 1, 2])
def test_layoutlmv3_answers_alike_in_one_step(places: int) -> None:
    generator = torch.Generator().manual_seed(7)
    encoder = tiny.model("layoutlmv3")
    (part,) = (item for item in encoder.modules() if hasattr(item, "cogview_attention"))
    part.has_relative_attention_bias, part.has_spatial_attention_bias = places > 0, places > 1
    states = torch.randn(3, 9, 48, generator=generator)
    mask = torch.zeros(3, 1, 1, 9)
    mask[1, ..., 5:] = torch.finfo(mask.dtype).min
    biases = torch.randn(2, 3, 2, 9, 9, generator=generator)
    with torch.no_grad():
        expected = part(states, mask, rel_pos=biases[0], rel_2d_pos=biases[1])[0]
        biases /= part.attention_head_size**0.5
        with attention.in_one_step(encoder):
            found = part(states, mask, rel_pos=biases[0], rel_2d_pos=biases[1])[0]
    assert not torch.equal(expected[1], expected[2])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_layoutlmv3s_places_have_the_biases_of_their_bins() -> None:
    (encoder,) = (
        item for item in tiny.model("layoutlmv3").modules() if hasattr(item, "_cal_2d_pos_emb")
    )
    width = encoder.config.hidden_size // encoder.config.num_attention_heads
    tokens = torch.tensor([[0, 1, 2, 7, 8, 40, 127, 128, 129, 500], [5] * 10])
    boxes = torch.stack([2 * tokens, tokens, tokens.flip(1), 1000 - 2 * tokens], dim=-1)
    with torch.no_grad():
        expected = encoder._cal_1d_pos_emb(tokens), encoder._cal_2d_pos_emb(boxes)
        with attention.in_one_step(encoder):
            found = encoder._cal_1d_pos_emb(tokens), encoder._cal_2d_pos_emb(boxes)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(theirs.unique()) > 8
        torch.testing.assert_close(ours * width**0.5, theirs, atol=1e-6, rtol=1e-5)


def test_a_failure_leaves_the_model_as_it_was(model: Any) -> None:
    before = torch.nn.functional.scaled_dot_product_attention
    forwards = [part.forward for part in model.modules()]
    names = [set(vars(part)) for part in model.modules()]
    with pytest.raises(TypeError), attention.in_one_step(model):
        model()
    assert torch.nn.functional.scaled_dot_product_attention is before
    assert [part.forward for part in model.modules()] == forwards
    assert [set(vars(part)) for part in model.modules()] == names
