"""Scaling by public words: private documents have no part in it, and the layer is merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hushdoc_witnessed
import pytest
import torch

from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import whitening
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import private, public_inputs
from hushdoc_training.recipes.kie.records import known_labels
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.recipes.kie.training import train_private

SETTINGS = PrivateSettings(trained="output", scaling="public", learning_rate=0.1)
PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.5, steps=2, expected_records=2, accountant="rdp"
)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return start_from(str(hushdoc_witnessed.public_start(tmp_path / "start")), None)


def forms(count: int, *, seed: int = 3) -> list[LabelledDocument]:
    config = invented.InventedConfig(document_types=("form",), labels="form")
    return list(invented.documents(seed=seed, count=count, config=config))


def test_the_scale_does_not_depend_on_the_documents(tmp_path: Path) -> None:
    seen = []
    for number, documents in enumerate([forms(2), forms(5, seed=4)]):
        folder = hushdoc_witnessed.public_start(tmp_path / str(number))
        begin = start_from(str(folder), None)
        with private.private_training(
            begin,
            known_labels(documents, begin.labels, warned=False),
            PLAN,
            SETTINGS,
            charge=lambda _: None,
            device=torch.device("cpu"),
        ):
            (layer,) = (part for part in begin.model.modules() if isinstance(part, Whitened))
            seen.append((layer.mean.clone(), layer.directions.clone()))
    (mean, directions), (other_mean, other_directions) = seen
    assert torch.equal(mean, other_mean)
    assert torch.equal(directions, other_directions)


def test_the_change_is_merged_and_the_claim_names_the_public_words(
    start: Start, tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in start.model.state_dict().items()}
    train_private(start, forms(3), PLAN, SETTINGS, out=tmp_path / "run", name="forms", quiet=True)
    after = start.model.state_dict()
    assert after.keys() == before.keys()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved == {"inner.classifier.weight", "inner.classifier.bias"}
    stored = Checkpoint.load(tmp_path / "run")
    assert stored.claim.training["scaling"] == "public"
    assert public_inputs.DATA in stored.claim.public_data
    loaded = start_from(str(tmp_path / "run"), None).model.state_dict()
    assert torch.equal(loaded["inner.classifier.weight"], after["inner.classifier.weight"])


def test_factors_of_low_rank_are_merged_beside_a_whitened_layer(
    start: Start, tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in start.model.state_dict().items()}
    settings = PrivateSettings(trained="lora:2", scaling="public", learning_rate=0.1)
    train_private(start, forms(3), PLAN, settings, out=tmp_path / "run", name="forms", quiet=True)
    after = start.model.state_dict()
    assert after.keys() == before.keys()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    layers = {name for name in before if ".encoder.layer." in name and before[name].dim() == 2}
    assert moved == layers | {"inner.classifier.weight", "inner.classifier.bias"}


def test_models_that_read_images_are_scaled_with_them(
    publish: Callable[..., Path],
) -> None:
    sizes = {"coordinate_size": 8, "shape_size": 8, "input_size": 32, "patch_size": 16}
    folder = publish("layoutlmv3", **sizes)
    labels = LabelSet(fields=("answer", "question"))
    begin = start_from(str(folder), labels, max_tokens=24, images=True)
    inputs = public_inputs.of_invented(begin)
    assert torch.isfinite(inputs).all()
    assert inputs.shape[1] == whitening.output_layer(begin.model.inner)[2].in_features
