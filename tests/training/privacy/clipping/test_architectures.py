"""Every architecture: against one backward pass per record, and against Opacus."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opacus.grad_sample import register_grad_sampler
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import (
    BookKeeping,
    Clipper,
    OneByOne,
    OpacusHooks,
    check,
)
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan

EXAMPLES = 5
CLIPPING_NORM = 0.1
# The true gradient of an attention's key bias is 0: what is below this share of the whole is
# compared on its scale.
FLOOR = 1e-4

ONE_ROW_PER_RECORD = (torch.arange(EXAMPLES), None)
# Record 0 has examples 0 and 2, example 3 is padding.
SEVERAL_ROWS = (torch.tensor([0, 1, 0, -1, 2]), torch.tensor([0.5, 1.0, 0.5, 1.0, 0.3]))

# What Opacus 1.6 refuses, or gets wrong, in a model as it comes.
OPACUS_FAILS = {
    "bert": "position indices have no batch axis",
    "layoutlm": "position indices have no batch axis",
    "layoutlmv3": "a module owns both parameters and buffers",
    "layoutlmv3-image": "a module owns both parameters and buffers",
    "t5": "relative positions have no batch axis",
    "t5-checkpoints": "a layer's forward runs twice",
    "beit": "modules that are made of others own parameters",
    "beit-shared-bias": "modules that are made of others own parameters",
    "resnet-groupnorm": "a residual is added in place",
}
OPACUS_IS_WRONG = {"t5-square": "relative positions are taken for examples"}

# Parameters that Opacus can't follow where they stand. For the comparison each is handed out by a
# module of its own, with an entry for every example: then all architectures are compared whole.
HELD_ELSEWHERE = (
    "cls_token",
    "pos_embed",
    "position_embeddings",
    "lambda_1",
    "lambda_2",
    "relative_position_bias_table",
    "relative_attention_bias.weight",
)
# What makes a constant of them, of which each example then gets its own.
MADE_OF_THEM = {"BeitRelativePositionBias": "forward", "T5Attention": "compute_bias"}


class Held(nn.Module):
    """A parameter that is handed out once for every example."""

    def __init__(self, value: nn.Parameter) -> None:
        super().__init__()
        self.value = value

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        return self.value.expand(len(examples), *self.value.shape)


@register_grad_sampler(Held)
def of_held(
    held: Held, activations: list[torch.Tensor], backprops: torch.Tensor
) -> dict[nn.Parameter, torch.Tensor]:
    return {held.value: backprops}


def hold_elsewhere(model: nn.Module) -> None:
    """Replaces what Opacus can't follow; a parameter's name gets `.value` behind it."""
    places: list[tuple[nn.Module, str, Held]] = []
    for owner_name, owner in list(model.named_modules()):
        for name, value in list(owner.named_parameters(recurse=False)):
            if value.requires_grad and f".{owner_name}.{name}".endswith(
                tuple("." + held for held in HELD_ELSEWHERE)
            ):
                del owner._parameters[name]
                owner.add_module(name, Held(value))
                places.append((owner, name, owner._modules[name]))

    def hand_out(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        examples = torch.empty(len(next(iter(kwargs.values()))))
        for owner, name, held in places:
            vars(owner)[name] = shaped(held(examples))

    model.register_forward_pre_hook(hand_out, with_kwargs=True)
    for module in model.modules():
        method = MADE_OF_THEM.get(type(module).__name__)
        inside = [place for place in places if place[0] in module.modules()]
        if method and inside:
            setattr(module, method, one_by_one_example(getattr(module, method), *inside[0][:2]))


def shaped(by_example: torch.Tensor) -> torch.Tensor:
    """Returns it as it meets examples: a vector's entries are those of the last of three axes."""
    if by_example.dim() == 2:
        return by_example[:, None]
    return by_example.squeeze(1)


def one_by_one_example(
    make: Callable[..., torch.Tensor], owner: nn.Module, name: str
) -> Callable[..., torch.Tensor]:
    def of(*args: Any, **kwargs: Any) -> torch.Tensor:
        whole, made = vars(owner)[name], []
        for one in whole:
            vars(owner)[name] = one
            made.append(make(*args, **kwargs))
        vars(owner)[name] = whole
        return torch.cat(made)

    return of


def repaired(architecture: str, tiny: Callable[[str], Any]) -> Any:
    """Returns the same model, put into words that Opacus understands."""
    sample = tiny("t5" if architecture == "t5-checkpoints" else architecture)
    hold_elsewhere(sample.model)
    if architecture in ("bert", "layoutlm"):
        sample.model.register_forward_pre_hook(with_positions, with_kwargs=True)
    for module in sample.model.modules():
        if type(module).__name__ == "ResNetBasicLayer":
            module.layer.register_forward_hook(lambda _, inputs, output: output.clone())
    return sample


def with_positions(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    examples, tokens = kwargs["input_ids"].shape
    return args, {**kwargs, "position_ids": torch.arange(tokens).repeat(examples, 1)}


def add(clipper: Clipper, tiny: Any, grouping: tuple[torch.Tensor, Any]) -> Any:
    torch.manual_seed(1)  # the same dropout for every clipper
    return clipper.add(tiny.losses, grouping[0], weights=grouping[1])


def assert_same_sums(found: Clipper, expected: Clipper, tolerance: float = 1e-5) -> None:
    whole = torch.stack([total.norm() for total in expected.sums.values()]).norm()
    assert whole > 0
    for name, total in expected.sums.items():
        error = (found.sums[name] - total).norm() / max(total.norm(), FLOOR * whole)
        assert error <= tolerance, f"{name}: {error:.1e}"


@pytest.mark.parametrize(
    "grouping", [ONE_ROW_PER_RECORD, SEVERAL_ROWS], ids=["examples", "records"]
)
def test_equals_one_backward_pass_per_record(
    architecture: str, tiny: Callable[[str], Any], grouping: tuple[torch.Tensor, Any]
) -> None:
    sample = tiny(architecture)
    truth = OneByOne(sample.model, clipping_norm=CLIPPING_NORM)
    ours = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    expected, found = add(truth, sample, grouping), add(ours, sample, grouping)
    assert (expected.norms > CLIPPING_NORM).any()
    torch.testing.assert_close(found.norms, expected.norms, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.losses, expected.losses)
    assert_same_sums(ours, truth)
    assert all(parameter.grad is None for parameter in sample.model.parameters())


def test_equals_opacus(architecture: str, tiny: Callable[[str], Any]) -> None:
    sample, other = tiny(architecture), repaired(architecture, tiny)
    ours = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    theirs = OpacusHooks(other.model, clipping_norm=CLIPPING_NORM)
    for grouping in (ONE_ROW_PER_RECORD, SEVERAL_ROWS):
        expected, found = add(theirs, other, grouping), add(ours, sample, grouping)
        torch.testing.assert_close(found.norms, expected.norms, rtol=1e-5, atol=0)
    theirs.sums = {name.removesuffix(".value"): total for name, total in theirs.sums.items()}
    trained = {name for name, value in sample.model.named_parameters() if value.requires_grad}
    assert theirs.sums.keys() == ours.sums.keys() == trained  # not one is left out
    assert_same_sums(ours, theirs)


@pytest.mark.parametrize("name", ["beit", "t5", "layoutlmv3-image"])
def test_what_is_held_elsewhere_computes_the_same(name: str, tiny: Callable[[str], Any]) -> None:
    sample, other = tiny(name), repaired(name, tiny)
    held = [n for n, _ in other.model.named_parameters() if n.endswith(".value")]
    assert held
    with torch.no_grad():
        parameters = dict(sample.model.named_parameters())
        for found, value in other.model.named_parameters():
            change = torch.randn_like(value)  # many of them are zeros at the start
            value.add_(change)
            parameters[found.removesuffix(".value")].add_(change)
        sample.model.eval(), other.model.eval()
        torch.testing.assert_close(sample.losses(), other.losses())


@pytest.mark.parametrize("name", OPACUS_FAILS)
def test_what_opacus_cannot_handle_is_refused(name: str, tiny: Callable[[str], Any]) -> None:
    sample = tiny(name)
    theirs = OpacusHooks(sample.model, clipping_norm=CLIPPING_NORM)
    with pytest.raises(PrivacyError, match="Opacus"):
        add(theirs, sample, ONE_ROW_PER_RECORD)


@pytest.mark.parametrize("name", OPACUS_IS_WRONG)
def test_what_opacus_gets_wrong_does_not_pass_the_self_test(
    name: str, tiny: Callable[[str], Any]
) -> None:
    sample = tiny(name)
    theirs = OpacusHooks(sample.model, clipping_norm=CLIPPING_NORM)
    with pytest.raises(PrivacyError, match="relative_attention_bias"):
        check(theirs, sample.losses_of, num_examples=EXAMPLES)


def test_passes_the_self_test(architecture: str, tiny: Callable[[str], Any]) -> None:
    sample = tiny(architecture)
    clipper = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    state = {name: tensor.clone() for name, tensor in sample.model.state_dict().items()}
    unused = check(clipper, sample.losses_of, num_examples=EXAMPLES)
    assert sample.model.training
    assert not any(total.any() for total in clipper.sums.values())
    assert all(torch.equal(state[name], t) for name, t in sample.model.state_dict().items())
    expected = {
        "layoutlm": "layoutlm.pooler.dense.weight",
        "layoutlmv3": "layoutlmv3.encoder.rel_pos_bias.weight",
        "layoutlmv3-image": "layoutlmv3.encoder.rel_pos_x_bias.weight",
    }
    assert (expected[architecture] in unused) if architecture in expected else True
    if architecture in {"bert", "roberta", "t5", "beit", "convnext", "unet", "lora"}:
        assert unused == frozenset()


@pytest.mark.parametrize("sharpness", [30, 300])
def test_sharp_attention_passes_too(sharpness: float, tiny: Callable[[str], Any]) -> None:
    """A key's bias has no gradient but rounding, which sharpness makes larger."""
    sample = tiny("bert")
    with torch.no_grad():
        for name, parameter in sample.model.named_parameters():
            if ".query." in name or ".key." in name:
                parameter.mul_(sharpness).add_(torch.randn_like(parameter))
    clipper = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    truth = OneByOne(sample.model, clipping_norm=CLIPPING_NORM)
    check(clipper, sample.losses_of, num_examples=EXAMPLES)
    found = truth.add(sample.losses, torch.arange(EXAMPLES))
    [*biases] = (square for name, square in found.squares.items() if name.endswith("key.bias"))
    shares = torch.stack(biases).sqrt() / found.norms
    assert 0 < float(shares.max()) < 1e-5


def test_tied_weights_count_once_with_their_cross_terms(tiny: Callable[[str], Any]) -> None:
    sample = tiny("t5")
    ours = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    found = add(ours, sample, ONE_ROW_PER_RECORD)
    names = [name for name in ours.sums if "shared" in name or "lm_head" in name]
    assert names == ["shared.weight"]
    for example in range(EXAMPLES):
        sample.model.zero_grad()
        torch.manual_seed(1)
        sample.losses()[example].backward()
        alone = sample.model.shared.weight.grad.square().sum()
        torch.testing.assert_close(
            found.squares["shared.weight"][example], alone, rtol=1e-5, atol=0
        )


def test_frozen_parts_are_left_alone(tiny: Callable[[str], Any]) -> None:
    sample = tiny("bert")
    for name, parameter in sample.model.named_parameters():
        parameter.requires_grad = "layer.1" in name or "classifier" in name
    truth = OneByOne(sample.model, clipping_norm=CLIPPING_NORM)
    ours = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    for clipper in (truth, ours):
        add(clipper, sample, SEVERAL_ROWS)
    assert not any("layer.0" in name or "embeddings" in name for name in ours.sums)
    assert_same_sums(ours, truth)


@pytest.mark.parametrize("name", ["bert", "layoutlmv3-image", "t5", "convnext", "unet"])
def test_bf16_autocast_with_norms_in_fp32(name: str, tiny: Callable[[str], Any]) -> None:
    sample = tiny(name)
    norms, sums = [], []
    for kind in (OneByOne, BookKeeping):
        clipper = kind(sample.model, clipping_norm=CLIPPING_NORM)

        def losses() -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return sample.losses()

        torch.manual_seed(1)
        found = clipper.add(losses, torch.arange(EXAMPLES))
        assert found.norms.dtype == torch.float32
        assert all(total.dtype == torch.float32 for total in clipper.sums.values())
        norms.append(found.norms)
        sums.append(torch.cat([total.flatten() for total in clipper.sums.values()]))
    torch.testing.assert_close(norms[0], norms[1], rtol=0.02, atol=0)
    assert (sums[0] - sums[1]).norm() / sums[0].norm() < 0.03


def test_a_record_in_parts_equals_the_same_record_at_once(tiny: Callable[[str], Any]) -> None:
    sample = tiny("layoutlmv3")
    sample.model.eval()  # no dropout: the parts run separately
    whole = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    at_once = whole.add(sample.losses, torch.zeros(EXAMPLES, dtype=torch.int64))
    for kind in (BookKeeping, OneByOne, OpacusHooks):
        parts = kind(sample.model, clipping_norm=CLIPPING_NORM)
        found = parts.add_large(
            [lambda: sample.losses_of([0, 1]), lambda: sample.losses_of([2, 3, 4])]
        )
        torch.testing.assert_close(found.norms, at_once.norms, rtol=1e-5, atol=0)
        torch.testing.assert_close(found.losses, at_once.losses, rtol=1e-4, atol=1e-6)
        assert_same_sums(parts, whole)


def tensors_alive() -> int:
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize("name", ["bert", "t5", "beit", "unet"])
def test_activations_go_without_waiting_for_garbage_collection(
    name: str, tiny: Callable[[str], Any]
) -> None:
    sample = tiny(name)
    clipper = BookKeeping(sample.model, clipping_norm=CLIPPING_NORM)
    add(clipper, sample, ONE_ROW_PER_RECORD)
    gc.collect()
    gc.disable()
    try:
        before = tensors_alive()
        add(clipper, sample, ONE_ROW_PER_RECORD)
        assert tensors_alive() == before
    finally:
        gc.enable()


LEFT_OUT = {  # transformers makes them, and tagging tokens or pages doesn't use them
    "layoutlm": {"layoutlm.pooler.dense.bias", "layoutlm.pooler.dense.weight"},
    "lilt": {"lilt.encoder.layer.1.layout_output.dense.weight"},  # the last layer's other stream
    "layoutlmv3": {
        "layoutlmv3.cls_token",
        "layoutlmv3.encoder.rel_pos_bias.weight",
        "layoutlmv3.patch_embed.proj.weight",
    },
    "layoutlmv3-image": {"layoutlmv3.encoder.rel_pos_bias.weight"},
}


def test_is_trained_as_it_was_made(architecture: str, tiny: Callable[[str], Any]) -> None:
    sample = tiny(architecture)
    optimizer = torch.optim.AdamW([p for p in sample.model.parameters() if p.requires_grad])
    before = {name: p.detach().clone() for name, p in sample.model.named_parameters()}
    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=1.0, steps=1, expected_records=2, accountant="rdp"
    )
    records = [[example] for example in range(EXAMPLES)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with PrivateTraining(
            plan, sample.model, optimizer, records=records, losses=sample.losses_of
        ) as training:
            training.step()
    assert LEFT_OUT.get(architecture, set()) <= training.untrained_parameters.keys()
    assert bool(training.untrained_parameters) == (architecture in LEFT_OUT)
    for name, value in sample.model.named_parameters():
        moved = value.requires_grad and name not in training.untrained_parameters
        assert torch.equal(value, before[name]) != moved, name
