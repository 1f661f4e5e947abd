"""A reader that is trained alone learns what it learns inside its pointer."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from private_simulator import CLIP, Silent, known_streams, make_plan, moments

from hushdoc.labels import LabelledDocument
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.models import pointer
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.docvqa import frozen_encoder, private
from hushdoc_training.recipes.docvqa.private import losses_of, private_training
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_plain
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings

CPU = torch.device("cpu")
STEPS = 3


@pytest.fixture(scope="module")
def receipts() -> list[LabelledDocument]:
    config = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")
    return list(stream.documents(seed=3, count=2, config=config))


@pytest.fixture(scope="module")
def start(receipts: list[LabelledDocument]) -> Start:
    texts = [word.text for item in receipts for word in item.document.pages[0].words]
    return start_from("small", max_tokens=96, max_question=40, vocabulary=lambda: texts)


def moved(
    start: Start, documents: list[LabelledDocument], scaling: str
) -> tuple[torch.Tensor, int]:
    """Returns Adam's moments after some steps without noise, and how often windows were read."""
    start = replace(start, model=copy.deepcopy(start.model))
    plan = make_plan(privacy_unit="provider", sampling_rate=1.0, steps=STEPS, expected_records=1)
    settings = PrivateSettings(trained="output", scaling=scaling, learning_rate=1e-2)
    with known_streams(noise=Silent()):
        training = private_training(
            start, documents, plan, settings, charge=lambda step: None, device=CPU
        )
        return moments(training, start.model.inner)


@pytest.mark.parametrize("scaling", ["none", "public"])
def test_it_moves_as_inside_the_pointer_and_reads_once(
    scaling: str, start: Start, receipts: list[LabelledDocument], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, once = moved(start, receipts, scaling)
    with monkeypatch.context() as patch:
        patch.setattr(frozen_encoder, "MOST_KEPT", 0)
        unkept, often = moved(start, receipts, scaling)
    assert torch.equal(alone, unkept)
    assert often == STEPS * once > 0

    def whole(start: Start, *_: Any, device: torch.device) -> tuple[torch.nn.Module, Any]:
        return start.model, partial(losses_of, start, device=device)

    monkeypatch.setattr(private, "trained_part", whole)
    inside, _ = moved(start, receipts, scaling)
    assert float(inside.norm()) > 0.1 * CLIP
    assert float((alone - inside).norm()) < 3e-2 * float(inside.norm())  # bfloat16


def test_without_privacy_it_learns_and_leaves_the_encoder_as_it_is(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    learned = replace(start, model=copy.deepcopy(start.model))
    claim = claims.public((), training={})
    settings = PlainSettings(epochs=2, batch_size=1)
    how: dict[str, Any] = {"claim": claim, "device": CPU, "quiet": True}
    train_plain(learned, receipts, settings, out=tmp_path / "run", trained="output", **how)
    before, after = start.model.state_dict(), pointer.load(tmp_path / "run" / "checkpoint")
    assert before.keys() == after.state_dict().keys()
    moved = {name for name, value in after.state_dict().items() if not value.equal(before[name])}
    weights = {name for name, _ in after.named_parameters() if name.startswith(after.OUTPUT)}
    assert weights - {"reader.layers.0.key.bias"} <= moved <= weights  # a key's changes nothing
    with pytest.raises(ValueError, match="trained is 'biases'"):
        train_plain(learned, receipts, settings, out=tmp_path / "no", trained="biases", **how)
    assert not (tmp_path / "no").exists()
