"""A pointer whose last layer alone learns, scaled by public questions."""

from __future__ import annotations

import argparse
import copy
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.models import pointer
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa import private, public_inputs, settings
from hushdoc_training.recipes.docvqa.settings import (
    MANY,
    MORE,
    OTHERS,
    SCALED,
    Private,
    private_rate,
)
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_private
from hushdoc_training.recipes.kie.settings import PrivateSettings

SETTINGS = PrivateSettings(
    trained="output", scaling="public", optimizer="sgd", learning_rate=50.0, decay=False
)


def plan(*, epsilon: float = 8, expected: int = 2, clipping_norm: float = 0.05) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        privacy_unit="provider",
        epsilon=epsilon,
        sampling_rate=1.0,
        steps=2,
        expected_records=expected,
        clipping_norm=clipping_norm,
        accountant="rdp",
    )


@pytest.fixture(scope="module")
def receipts() -> list[LabelledDocument]:
    config = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")
    return list(stream.documents(seed=3, count=3, config=config))


@pytest.fixture(scope="module")
def made(receipts: list[LabelledDocument]) -> Start:
    texts = [word.text for item in receipts for word in item.document.pages[0].words]
    return start_from("small", max_tokens=96, max_question=40, vocabulary=lambda: texts)


@pytest.fixture
def start(made: Start) -> Start:
    return replace(made, model=copy.deepcopy(made.model))


def test_the_last_layer_alone_learns_and_the_claim_names_what_it_was_scaled_by(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in start.model.state_dict().items()}
    train_private(start, receipts, plan(), SETTINGS, out=tmp_path / "run", name="a", quiet=True)
    after = pointer.load(tmp_path / "run" / "checkpoint").state_dict()
    assert after.keys() == before.keys()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved == {"reader.ends.weight", "reader.ends.bias"}
    claim = DocVQACheckpoint.load(tmp_path / "run").claim
    assert (claim.training["scaling"], claim.training["optimizer"]) == ("public", "sgd")
    assert public_inputs.DATA in claim.public_data


def test_the_scale_is_of_public_questions_alone_and_adds_nothing_yet(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    seen = []
    probe = start.model.eval().probe(8)
    with torch.no_grad():
        expected = start.model(*probe)
    for documents in (receipts[:1], receipts):
        begun = replace(start, model=copy.deepcopy(start.model))
        with private.private_training(
            begun, documents, plan(), SETTINGS, charge=lambda _: None, device=torch.device("cpu")
        ):
            (layer,) = (part for part in begun.model.modules() if isinstance(part, Whitened))
            with torch.no_grad():
                torch.testing.assert_close(begun.model.eval()(*probe), expected)
        seen.append((layer.mean.clone(), layer.directions.clone()))
    assert len(seen[0][1]) <= public_inputs.DIRECTIONS
    assert all(torch.equal(one, other) for one, other in zip(*seen, strict=True))


def test_directions_are_as_many_as_are_asked_for_and_named_in_the_claim(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    few = replace(SETTINGS, directions=3)
    begun = replace(start, model=copy.deepcopy(start.model))
    private.prepared(begun, few, device=torch.device("cpu"))
    (layer,) = (part for part in begun.model.modules() if isinstance(part, Whitened))
    assert layer.directions.shape == (3, start.model.reader.ends.in_features)
    train_private(start, receipts, plan(), few, out=tmp_path / "run", name="a", quiet=True)
    assert DocVQACheckpoint.load(tmp_path / "run").claim.training["directions"] == 3


@pytest.mark.parametrize(("directions", "scaling"), [(0, "public"), (True, "public"), (3, "none")])
def test_directions_are_a_number_of_a_scaled_layer(directions: int, scaling: str) -> None:
    with pytest.raises(ValueError, match="expected 1 or more, of a scaled layer alone"):
        PrivateSettings(directions=directions, scaling=scaling)


def test_inputs_of_the_layer_are_those_of_questions_without_padding(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    model = start.model
    assert isinstance(model, pointer.Pointer)
    one, several = (public_inputs.of_documents(start, model, receipts[:n]) for n in (1, 3))
    assert torch.equal(several[: len(one)], one)
    assert len(several) > len(one) > 0
    unread = [replace(receipts[0], questions=())]
    with pytest.raises(CheckpointError, match="no token of any invented question"):
        public_inputs.of_documents(start, model, unread)


@pytest.mark.parametrize("trained", ["biases", "all"])
def test_another_part_is_refused_not_scaled(
    trained: str, start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    other = replace(SETTINGS, trained=trained)
    with pytest.raises(PrivacyError, match="expected 'output' with the scaling 'public'"):
        train_private(start, receipts, plan(), other, out=tmp_path / "run", name="a", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_rate_follows_from_the_plan_and_is_smaller_the_more_noise() -> None:
    def rate(**told: float) -> float:
        found = private_rate(plan(**told), algorithm="dp-sgd", scaling="public")  # type: ignore[arg-type]
        assert found * plan(**told).clipping_norm <= settings.MOST_MOVED  # type: ignore[arg-type]
        return found

    assert rate(expected=10**6) == pytest.approx(settings.MOST_MOVED / 0.05)
    for one, other in (({"epsilon": 1}, {"epsilon": 8}), ({"expected": 4}, {"expected": 8})):
        assert rate(**one) < rate(**other)
    # What records may move does not change with the norm that their gradients are cut to.
    assert rate(clipping_norm=0.1) == pytest.approx(rate() / 2)
    noise = plan().noise_multiplier * 0.05 / 2 * 2**0.5
    assert rate() * noise == pytest.approx(settings.MOST_NOISE)
    assert private_rate(plan(), algorithm="dp-adam", scaling="none") == 3e-4
    rates = [
        private_rate(plan(), algorithm="dp-adam", scaling="public", many=many)
        for many in (False, True)
    ]
    assert rates == [settings.ADAM_RATE, settings.ADAM_RATE_OF_MANY]


@pytest.mark.parametrize(
    ("architecture", "given", "expected"),
    [
        ("pointer", {}, SCALED),
        ("pointer", {"scaling": "public"}, SCALED),
        ("pointer", {"scaling": "none"}, OTHERS),
        ("pointer", {"trained": "output"}, replace(OTHERS, trained="output")),
        ("pointer", {"algorithm": "fl-provider-dp"}, replace(OTHERS, algorithm="fl-provider-dp")),
        ("pointer", {"steps": 7}, replace(SCALED, steps=7)),
        (
            "pointer",
            {"expected_records": 1000, "epsilon": 2.99},
            replace(SCALED, expected_records=1000),
        ),
        ("pointer", {"expected_records": 1000}, replace(SCALED, expected_records=1000)),
        (
            "pointer",
            {"expected_records": 1000, "epsilon": 3.0},
            replace(MANY, expected_records=1000),
        ),
        (
            "pointer",
            {"expected_records": 1000, "epsilon": 3.0, "directions": 5},
            replace(MANY, expected_records=1000, directions=5),
        ),
        (
            "pointer",
            {"expected_records": 4000, "epsilon": 3.9},
            replace(MANY, expected_records=4000),
        ),
        (
            "pointer",
            {"expected_records": 4000, "epsilon": 4.0},
            replace(MORE, expected_records=4000),
        ),
        (
            "pointer",
            {"expected_records": 1000, "epsilon": 3.0, "trained": "all"},
            replace(OTHERS, expected_records=1000, trained="all"),
        ),
        ("vt5", {}, OTHERS),
    ],
)
def test_what_nobody_gives_is_set_by_what_is_given(
    architecture: str, given: dict[str, str | float], expected: Private
) -> None:
    names = [field.name for field in fields(Private)]
    options = argparse.Namespace(**{**dict.fromkeys([*names, "epsilon"]), **given})
    settings.complete(options, architecture)
    assert Private(**{name: getattr(options, name) for name in names}) == expected
