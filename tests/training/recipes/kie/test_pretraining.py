"""Pretraining: words that are masked and boxes that are hidden, and nothing of the labels."""

from __future__ import annotations

import itertools
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.kie.pretraining import (
    BINS,
    MaskedBatch,
    MaskedSettings,
    Masking,
    train_masked,
)
from hushdoc_training.recipes.kie.records import IGNORED, collate, windows_of
from hushdoc_training.recipes.kie.start import Start
from hushdoc_training.runs.step_log import read_log

PUBLIC = claims.public((), training={})


def _masked(
    start: Start, documents: list[LabelledDocument], settings: MaskedSettings
) -> tuple[MaskedBatch, torch.Tensor, torch.Tensor]:
    windows = [
        window for item in documents for window in windows_of(item, start.encoder, start.labels)
    ]
    plain = collate(start.encoder, windows)
    masking = Masking.of(start.tokenizer_json, settings)
    made = masking.batch(start.encoder, windows, np.random.default_rng(1))
    return made, plain.input_ids, plain.bbox


def test_what_is_to_be_told_is_taken_out_and_the_rest_stays(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    made, ids, boxes = _masked(small_start, receipts, MaskedSettings())
    asked, hidden = made.ids != IGNORED, made.bins[..., 0] != IGNORED
    assert not bool((asked & hidden).any())
    assert 0.1 < float(asked.sum() / (ids != 0).sum()) < 0.2
    assert torch.equal(made.ids[asked], ids[asked])
    assert float((made.inputs.input_ids[asked] == ids[asked]).float().mean()) < 0.3
    assert torch.equal(made.inputs.input_ids[~asked], ids[~asked])
    assert bool((made.inputs.bbox[hidden] == 0).all())
    assert torch.equal(made.inputs.bbox[~hidden], boxes[~hidden])
    middle = (made.bins[hidden].float() + 0.5) * 1001 / BINS
    assert float((middle - boxes[hidden]).abs().max()) <= 1001 / BINS


def test_all_tokens_of_a_word_are_taken_out_together(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    window = windows_of(receipts[0], small_start.encoder, small_start.labels)[0]
    masking = Masking.of(small_start.tokenizer_json, MaskedSettings())
    made = masking.batch(small_start.encoder, [window], np.random.default_rng(3))
    told = (made.ids[0, 1 : 1 + window.stop - window.start] != IGNORED).tolist()
    words = window.page.words[window.start : window.stop].tolist()
    for _, group in itertools.groupby(zip(words, told, strict=True), key=lambda pair: pair[0]):
        assert len({asked for _, asked in group}) == 1


def test_no_word_shows_the_hidden_box_of_its_segment(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    segments = replace(small_start.preprocessing, box_level="segment")
    start = replace(small_start, preprocessing=segments)
    made, _, boxes = _masked(start, receipts, MaskedSettings(hidden_boxes=0.4))
    hidden = made.bins[..., 0] != IGNORED
    for row in range(len(hidden)):
        taken = {tuple(box) for box in boxes[row][hidden[row]].tolist()}
        assert taken.isdisjoint(tuple(box) for box in made.inputs.bbox[row].tolist())
    assert bool(hidden.any())


def test_unknown_words_teach_about_their_boxes_alone(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    (page,) = receipts[0].document.pages
    words = tuple(replace(word, text="\u25a1") for word in page.words)
    document = replace(receipts[0].document, pages=(replace(page, words=words),))
    made, _, _ = _masked(small_start, [replace(receipts[0], document=document)], MaskedSettings())
    assert bool((made.ids == IGNORED).all())
    assert bool((made.bins != IGNORED).any())


def test_masked_words_are_learned_without_the_labels(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    head = small_start.model.inner.classifier.weight.detach().clone()  # type: ignore[union-attr, operator]
    settings = MaskedSettings(epochs=12, batch_size=8, learning_rate=3e-3)
    outcome = train_masked(
        small_start, receipts, settings, out=tmp_path / "run", claim=PUBLIC, quiet=True
    )
    assert not outcome.interrupted
    losses = [
        entry["loss"] for entry in read_log(tmp_path / "run" / "steps.jsonl") if "loss" in entry
    ]
    assert np.mean(losses[-4:]) < 0.85 * np.mean(losses[:4])
    stored = Checkpoint.load(tmp_path / "run")
    assert stored.labels == small_start.labels
    again = layout.load(stored.folder, stored.architecture)
    assert torch.equal(again.inner.classifier.weight, head)  # type: ignore[union-attr, arg-type]


def test_a_run_with_other_settings_is_not_gone_on_with(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    def train(settings: MaskedSettings, *, resume: bool) -> None:
        out = tmp_path / "run"
        begun = replace(small_start, model=deepcopy(small_start.model))
        train_masked(begun, receipts, settings, out=out, claim=PUBLIC, quiet=True, resume=resume)

    train(MaskedSettings(batch_size=32), resume=False)
    with pytest.raises(CheckpointError, match="hidden_boxes"):
        train(MaskedSettings(batch_size=32, hidden_boxes=0.3), resume=True)


def test_what_can_not_be_pretrained_is_refused(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    private = replace(small_start, claim=claims.not_private("forms", (), training={}))
    with pytest.raises(PrivacyError):
        train_masked(
            private, receipts, MaskedSettings(), out=tmp_path / "run", claim=PUBLIC, quiet=True
        )
    assert not (tmp_path / "run").exists()
    unable = small_start.tokenizer_json.replace("[UNK]", "[NONE]")
    with pytest.raises(CheckpointError, match="token"):
        Masking.of(unable, MaskedSettings())
