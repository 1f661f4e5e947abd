"""An output layer that is trained alone learns what it learns inside its model."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import hushdoc_tiny
import hushdoc_tiny_models
import pytest
import torch
from private_simulator import CLIP, Silent, known_streams, make_plan, moments

from hushdoc.errors import PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.recipes.kie import frozen_encoder, private
from hushdoc_training.recipes.kie.examples import losses_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start

CPU = torch.device("cpu")
STEPS = 3


def moved(
    start: Start, documents: list[LabelledDocument], **changed: Any
) -> tuple[torch.Tensor, int]:
    """Returns Adam's moments after some steps without noise, and how often windows were read."""
    start = replace(start, model=copy.deepcopy(start.model))
    plan = make_plan(sampling_rate=1.0, steps=STEPS, expected_records=1)
    settings = PrivateSettings(trained="output", learning_rate=1e-2, **changed)
    with known_streams(noise=Silent()):
        training = private.private_training(
            start, documents, plan, settings, charge=lambda step: None, device=CPU
        )
        return moments(training, start.model.inner.get_submodule("base_model"))


def whole(
    start: Start, settings: PrivateSettings, *, device: torch.device
) -> tuple[TokenClassifier, Any]:
    return start.model, partial(losses_of, start.model, start.encoder, device=device)


@pytest.mark.parametrize("scaling", ["none", "public"])
def test_it_moves_as_inside_the_model(
    small_start: Start,
    receipts: list[LabelledDocument],
    monkeypatch: pytest.MonkeyPatch,
    scaling: str,
) -> None:
    alone, _ = moved(small_start, receipts[:4], scaling=scaling)
    monkeypatch.setattr(private, "trained_part", whole)
    inside, _ = moved(small_start, receipts[:4], scaling=scaling)
    assert float(inside.norm()) > 0.1 * CLIP
    assert float((alone - inside).norm()) < 3e-2 * float(inside.norm())  # bfloat16


def test_a_window_is_read_once_and_again_where_there_is_no_room(
    small_start: Start, receipts: list[LabelledDocument], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, once = moved(small_start, receipts[:2])
    monkeypatch.setattr(frozen_encoder, "MOST_KEPT", 0)
    unkept, often = moved(small_start, receipts[:2])
    assert torch.equal(kept, unkept)
    assert often == STEPS * once > 0


def test_all_weights_keep_their_names_and_an_encoder_that_moves_is_refused(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    start = replace(small_start, model=copy.deepcopy(small_start.model))
    model, _ = private.trained_part(start, PrivateSettings(trained="output"), device=CPU)
    assert model is not start.model
    for kind in ("named_parameters", "named_buffers"):
        kept, whole = dict(getattr(model, kind)()), dict(getattr(start.model, kind)())
        assert list(kept) == list(whole)
        assert all(kept[name] is whole[name] for name in whole)
    assert model.state_dict().keys() == start.model.state_dict().keys()

    def note(module: torch.nn.Module, *_: Any) -> None:
        next(module.parameters()).data.add_(1e-3)

    start.model.inner.get_submodule("base_model").register_forward_hook(note)
    plan = make_plan(sampling_rate=1.0, steps=STEPS, expected_records=1)
    settings = PrivateSettings(trained="output")
    with pytest.raises(PrivacyError, match="other than by a private step"):
        private.private_training(
            start, receipts[:2], plan, settings, charge=lambda step: None, device=CPU
        )


def test_dropout_is_drawn_inside_the_model(
    small_start: Start,
) -> None:
    settings = PrivateSettings(trained="output", dropout=0.1)
    model, _ = private.trained_part(small_start, settings, device=CPU)
    assert model is small_start.model


@pytest.mark.parametrize(
    ("architecture", "images"),
    [*((each, False) for each in hushdoc_tiny.ARCHITECTURES), ("layoutlmv3", True)],
)
def test_states_are_what_the_output_layer_reads(architecture: str, images: bool) -> None:
    made = hushdoc_tiny_models.image_model() if images else hushdoc_tiny_models.model(architecture)
    ids = torch.arange(5, 17).reshape(2, 6)
    inputs = [ids, torch.arange(48).reshape(2, 6, 4), torch.ones_like(ids)]
    if images:
        inputs.append(torch.rand(2, 3, 32, 32))
    logits = made.inner.get_submodule("classifier")(made.states(*inputs))
    torch.testing.assert_close(logits, made(*inputs))
