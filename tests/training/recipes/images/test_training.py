"""Records of private training on images, its resumption, and what a start may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError, CheckpointError, PrivacyError
from hushdoc.labels import LabelSet
from hushdoc_training import duplicates
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.image_checkpoint import ImageCheckpoint
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.images import training
from hushdoc_training.recipes.images.settings import PlainSettings
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.runs.claim_words import READABLE, READING, UNDECLARED

LABELS = LabelSet(fields=("dark", "light"))
PLAN = PrivacyPlan.calibrated(
    epsilon=8.0, sampling_rate=0.5, steps=1, clipping_norm=1.0, expected_records=20
)
ALL = PrivateSettings(trained="all", learning_rate=0.01)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[ImageDocument]:
    """Ten documents, of which the first has three pages and the last two are copies."""
    folder = tmp_path_factory.mktemp("pages")
    made = []
    for number in range(10):
        paths = []
        for place in range(3 if number == 0 else 1):
            seed = min(number, 8)  # the last is a copy of the one before
            gray = np.random.default_rng((seed, place)).integers(0, 60, (20, 20))
            path = folder / f"{number}-{place}.png"
            Image.fromarray((gray + 180 * (seed % 2)).astype(np.uint8)).save(path)
            paths.append(path)
        pages = tuple(Page(width=20, height=20, words=(), image=path) for path in paths)
        label = LABELS.fields[min(number, 8) % 2]
        made.append(ImageDocument(id=f"d{number}", label=label, pages=pages))
    return made


def fresh(architecture: str = "linear") -> training.Start:
    return training.start_from(None, architecture=architecture, labels=LABELS)


def privately(documents: Sequence[ImageDocument], out: Path, **options: Any) -> training.Start:
    start = options.pop("start", None) or fresh()
    settings = options.pop("settings", ALL)
    plan = options.pop("plan", PLAN)
    training.train_private(
        start, documents, plan, settings, out=out, name="pages", quiet=True, **options
    )
    return start


@pytest.mark.parametrize(("copies", "records"), [("group", 9), ("keep", 10)])
def test_a_document_with_all_its_pages_is_one_record(
    copies: str,
    records: int,
    documents: list[ImageDocument],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[int]] = []
    real = training.private_training

    def watched(start: Any, found: Any, *further: Any, **named: Any) -> Any:
        seen.append([len(record) for record in found])
        return real(start, found, *further, **named)

    monkeypatch.setattr(training, "private_training", watched)
    privately(documents, tmp_path / "run", copies=copies)
    assert seen == [[3] + [1] * (records - 1)]
    claim = ImageCheckpoint.load(tmp_path / "run").claim
    (guarantee,) = claim.guarantees
    assert {*READING} <= {one.purpose for one in claim.data_accesses}
    assert READABLE in guarantee.assumes
    assert (duplicates.SAME_IMAGES in guarantee.unit_definition) == (copies == "group")


def test_a_network_with_batch_norms_is_refused_before_a_folder(
    documents: list[ImageDocument], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = fresh("small")
    norm = start.model.get_submodule("resnet.embedder.embedder")
    monkeypatch.setattr(norm, "normalization", torch.nn.BatchNorm2d(16))
    with pytest.raises(PrivacyError, match="normalization"):
        privately(documents, tmp_path / "run", start=start)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "settings", [replace(ALL, trained="encoder"), replace(ALL, dropout=0.1)], ids=str
)
def test_settings_of_other_recipes_are_refused(
    settings: PrivateSettings, documents: list[ImageDocument], tmp_path: Path
) -> None:
    with pytest.raises(PrivacyError, match="does not have"):
        privately(documents, tmp_path / "run", settings=settings)


def test_training_without_privacy_learns_and_its_run_is_a_start(
    documents: list[ImageDocument], tmp_path: Path
) -> None:
    start = fresh()
    settings = PlainSettings(epochs=10.0, batch_size=4, mixup=0.0, cutmix=0.0, dropout=0.0)
    claim = claims.public((), training={})
    training.train_plain(start, documents, settings, out=tmp_path / "run", claim=claim, quiet=True)
    assert training.scored(start, documents) == 1.0
    again = training.start_from(str(tmp_path / "run"), architecture=None, labels=LABELS)
    assert training.scored(again, documents) == 1.0
    with pytest.raises(CheckpointError, match="asks for 'small'"):
        training.start_from(str(tmp_path / "run"), architecture="small", labels=LABELS)


def test_a_start_of_private_documents_is_refused(
    documents: list[ImageDocument], tmp_path: Path
) -> None:
    privately(documents, tmp_path / "run")
    start = training.start_from(str(tmp_path / "run"), architecture=None, labels=LABELS)
    with pytest.raises(PrivacyError, match="protected documents"):
        privately(documents, tmp_path / "next", start=start)


def test_classes_that_nobody_named_are_refused_without_privacy(
    documents: list[ImageDocument], tmp_path: Path
) -> None:
    other = [*documents, replace(documents[1], id="other", label="other")]
    claim, out = claims.public((), training={}), tmp_path / "run"
    with pytest.raises(AnnotationError, match="not among"):
        training.train_plain(fresh(), other, PlainSettings(), out=out, claim=claim, quiet=True)
    assert not out.exists()


@pytest.mark.parametrize("others", [1, 10])
def test_a_document_of_another_class_is_a_private_record_that_adds_nothing(
    others: int, documents: list[ImageDocument], tmp_path: Path
) -> None:
    """It is among the records, also where all are, and a refusal tells nothing."""
    relabelled = [replace(one, label="other") for one in documents[:others]]
    start, made = fresh(), [*relabelled, *documents[others:]]
    records = training._examples(start, made)
    assert [len(record) for record in records[:others]] == [0] * others
    assert all(records[others:])
    privately(made, tmp_path / "run", start=start, copies="keep")
    claim = ImageCheckpoint.load(tmp_path / "run").claim
    assert UNDECLARED in claim.protected_data[0].contribution_bound
    assert training.scored(start, made) <= 1 - others / len(made)
