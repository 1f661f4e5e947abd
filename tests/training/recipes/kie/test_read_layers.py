"""An output layer that reads several layers of the encoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hushdoc_witnessed
import pytest
import torch

from hushdoc.errors import CheckpointError, InputError
from hushdoc.labels import LabelSet
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import recipe
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.recipes.kie.training import train_private

PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.5, steps=2, expected_records=2, accountant="rdp"
)
SETTINGS = PrivateSettings(trained="output", scaling="public", learning_rate=0.1, read_layers=2)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return start_from(str(hushdoc_witnessed.public_start(tmp_path / "start")), None)


def logits(start: Start) -> torch.Tensor:
    torch.manual_seed(0)
    ids = torch.randint(5, 40, (2, 9))
    boxes = torch.randint(0, 500, (2, 9, 4)).sort(-1).values
    with torch.inference_mode():
        found: torch.Tensor = start.model.eval()(ids, boxes, torch.ones_like(ids))
        return found


def test_reading_more_layers_changes_no_logit_until_it_is_trained(start: Start) -> None:
    before = logits(start)
    layout.read_more(start.model, 2)
    assert start.model.read_layers == [1, 2]
    torch.testing.assert_close(logits(start), before)
    weight = start.model.inner.get_parameter("classifier.weight")
    with torch.no_grad():
        weight[:, : weight.shape[1] // 2] = 1
    assert not torch.allclose(logits(start), before)  # the first layer is read now


@pytest.mark.parametrize("architecture", ["bert", "roberta", "lilt", "layoutlmv3"])
def test_every_architecture_reads_more_layers(
    architecture: str, publish: Callable[..., Path], tmp_path: Path
) -> None:
    labels = LabelSet(fields=("answer", "question"))
    sizes = {"coordinate_size": 8, "shape_size": 8} if architecture == "layoutlmv3" else {}
    model = start_from(str(publish(architecture, **sizes)), labels, max_tokens=24).model.eval()
    exported = model if model.reads_boxes else layout.TextClassifier(model)
    ids, boxes, mask = model.probe(8)
    inputs = (ids, boxes, mask) if model.reads_boxes else (ids, mask)
    with torch.inference_mode():
        before = exported(*inputs)
        layout.read_more(model, 2)
        torch.testing.assert_close(exported(*inputs), before)
    assert model.read_layers == [1, 2]
    model.save(tmp_path / "saved")
    loaded = layout.load(tmp_path / "saved", architecture)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(ids, boxes, mask), before)
        assert (
            loaded.hidden(ids, boxes, mask).shape[2] * 2 == loaded.states(ids, boxes, mask).shape[2]
        )


def test_private_training_of_several_layers_is_saved_and_loaded(
    start: Start, tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in start.model.state_dict().items()}
    config = invented.InventedConfig(document_types=("form",), labels="form")
    forms = list(invented.documents(seed=3, count=3, config=config))
    train_private(start, forms, PLAN, SETTINGS, out=tmp_path / "run", name="forms", quiet=True)
    after = start.model.state_dict()
    moved = {name for name in before if after[name].shape != before[name].shape}
    moved |= {name for name in before if name not in moved and (after[name] != before[name]).any()}
    assert moved == {"inner.classifier.weight", "inner.classifier.bias"}
    assert (after["inner.classifier.weight"] != 0).any(0).all()  # both layers' weights were trained
    stored = Checkpoint.load(tmp_path / "run")
    assert stored.claim.training["read_layers"] == 2
    loaded = start_from(str(tmp_path / "run"), None)
    assert loaded.model.read_layers == [1, 2]
    torch.testing.assert_close(logits(loaded), logits(start))
    known = LabelSet(fields=(*stored.labels.fields, "further"))
    relabelled = start_from(str(tmp_path / "run"), known, new_labels=True)
    assert relabelled.kept_labels == stored.labels.fields
    rows = relabelled.model.inner.get_parameter("classifier.weight")
    tag = stored.labels.tags[1]
    assert torch.equal(
        rows[known.tags.index(tag)], after["inner.classifier.weight"][stored.labels.tags.index(tag)]
    )


@pytest.mark.parametrize(("fields", "expected"), [(4, [1, 2]), (5, [])])
def test_a_recipe_reads_as_many_layers_as_a_start_allows(
    fields: int, expected: list[int], publish: Callable[..., Path]
) -> None:
    """Of ten tags on LayoutLMv3's output is two layers, and stays what it is."""
    labels = LabelSet(fields=tuple("abcde"[:fields]))
    sizes = {"coordinate_size": 8, "shape_size": 8}
    model = start_from(str(publish("layoutlmv3", **sizes)), labels, max_tokens=24).model
    fitted = recipe.fitting(recipe.named("hundreds").private, model)
    assert fitted.read_layers == max(1, len(expected))
    if fitted.read_layers > 1:
        layout.read_more(model, fitted.read_layers)
    assert model.read_layers == expected
    assert recipe.fitting(fitted, model).read_layers == 1  # those that it reads already


def test_numbers_that_no_model_has_are_refused(start: Start, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"can't read 3 layers.* Expected 1 to 2, where"):
        layout.read_more(start.model, 3)
    layout.read_more(start.model, 2)
    layout.read_more(start.model, 2)
    with pytest.raises(InputError, match=r"that reads 2\. Expected 1, where"):
        layout.read_more(start.model, 3)
    with pytest.raises(ValueError, match="read_layers is 0"):
        replace(SETTINGS, read_layers=0)
    start.model.save(tmp_path / "saved")
    assert layout.load(tmp_path / "saved", "layoutlm").read_layers == [1, 2]
    file = tmp_path / "saved" / "config.json"
    for wrong in ([2, 1], [1, 3], ["1"], [0, 2]):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"read_layers": wrong}))
        with pytest.raises(CheckpointError, match="rising numbers"):
            layout.load(tmp_path / "saved", "layoutlm")
