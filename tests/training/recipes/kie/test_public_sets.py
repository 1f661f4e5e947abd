"""Public sets: what a set does not annotate, its documents teach nothing about."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hushdoc.certificate.claim import PublicData
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.kie import public_sets
from hushdoc_training.recipes.kie import training as kie
from hushdoc_training.recipes.kie.epochs import shuffled_windows
from hushdoc_training.recipes.kie.public_sets import PublicSet
from hushdoc_training.recipes.kie.records import collate, loss_of, windows_of
from hushdoc_training.recipes.kie.settings import PlainSettings
from hushdoc_training.recipes.kie.start import Start

CPU = torch.device("cpu")
DATA = PublicData(
    name="a set", uses=("pretraining",), privacy_status="public", overlap_with_protected="none"
)


def _set(documents: list[LabelledDocument], *labels: str) -> PublicSet:
    known = [
        replace(item, spans=tuple(span for span in item.spans if span.label in labels))
        for item in documents
    ]
    return PublicSet(documents=known, labels=LabelSet(fields=labels), data=DATA)


@pytest.fixture
def two_sets(receipts: list[LabelledDocument]) -> list[PublicSet]:
    return [_set(receipts[:3], "date", "total"), _set(receipts[3:6], "provider_name", "total")]


def test_labels_and_documents_of_all_sets_are_together(two_sets: list[PublicSet]) -> None:
    labels = public_sets.labels_of(two_sets)
    assert labels.fields == ("date", "provider_name", "total")
    masks = public_sets.annotated(two_sets, labels)
    assert len(masks) == len(public_sets.documents_of(two_sets)) == 6
    assert [tag for tag, used in zip(labels.tags, masks[0], strict=True) if used] == [
        "O", "B-date", "I-date", "B-total", "I-total",
    ]  # fmt: skip
    assert masks[3].sum() == 5


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_tags_of_other_sets_have_no_part_in_the_loss(
    small_start: Start, two_sets: list[PublicSet], label_smoothing: float
) -> None:
    start = small_start
    masks = public_sets.annotated(two_sets, start.labels)
    windows = shuffled_windows(
        public_sets.documents_of(two_sets)[:3],
        start.encoder,
        start.labels,
        share=0.0,
        generator=np.random.default_rng(0),
        annotated=masks[:3],
    )
    batch = collate(start.encoder, windows[:4])
    loss = loss_of(start.model, batch, device=CPU, label_smoothing=label_smoothing)
    loss.backward()
    gradient = start.model.inner.classifier.weight.grad.abs().sum(1)  # type: ignore[union-attr]
    assert bool((gradient[torch.from_numpy(masks[0])] > 0).all())
    assert bool((gradient[~torch.from_numpy(masks[0])] == 0).all())
    assert torch.isfinite(loss)


def test_a_set_of_all_labels_has_the_loss_without_masks(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    start = small_start
    windows = windows_of(receipts[0], start.encoder, start.labels)
    (mask,) = public_sets.annotated(
        [PublicSet(documents=receipts[:1], labels=start.labels, data=DATA)], start.labels
    )
    masked = [replace(window, annotated=mask) for window in windows]
    for smoothing in (0.0, 0.1):
        losses = [
            loss_of(
                start.model.eval(), collate(start.encoder, parts), device=CPU,
                label_smoothing=smoothing,
            )
            for parts in (windows, masked)
        ]  # fmt: skip
        assert torch.allclose(*losses, rtol=1e-4)


def test_windows_with_and_without_a_mask_are_refused(
    small_start: Start, two_sets: list[PublicSet]
) -> None:
    (mask, *_) = public_sets.annotated(two_sets, small_start.labels)
    document = two_sets[0].documents[0]
    window = windows_of(document, small_start.encoder, small_start.labels)[0]
    with pytest.raises(ValueError, match="mask"):
        collate(small_start.encoder, [window, replace(window, annotated=mask)])


def test_a_run_over_several_sets_is_gone_on_with_only_as_it_began(
    tmp_path: Path, small_start: Start, two_sets: list[PublicSet]
) -> None:
    def train(masks: object, *, resume: bool = False) -> bool:
        return kie.train_plain(
            replace(small_start, model=deepcopy(small_start.model)),
            public_sets.documents_of(two_sets),
            PlainSettings(batch_size=4, label_smoothing=0.1, token_noise=0.2),
            out=tmp_path / "run",
            claim=claims.public((DATA,), training={}),
            quiet=True,
            annotated=masks,  # type: ignore[arg-type]
            resume=resume,
        ).interrupted

    masks = public_sets.annotated(two_sets, small_start.labels)
    assert not train(masks)
    assert Checkpoint.load(tmp_path / "run").claim.public_data == (DATA,)
    with pytest.raises(Exception, match="annotated"):
        train(masks[::-1], resume=True)
