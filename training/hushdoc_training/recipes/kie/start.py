"""Start: the model that training starts from, with its tokenizer, preprocessing and history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelSet
from hushdoc.runtime.encoding import Encoder, Preprocessing
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import fitting, layout
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.recipes import starts


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where training starts: a model with its tokenizer, preprocessing and history."""

    model: TokenClassifier
    tokenizer_json: str
    preprocessing: Preprocessing
    labels: LabelSet
    claim: Claim | None
    name: str
    kept_labels: tuple[str, ...] | None = None  # in a new output layer; None: it is no new one

    @property
    def known_labels(self) -> tuple[str, ...]:
        """The labels whose weights in the output layer are an earlier training's."""
        if self.kept_labels is None:
            return () if self.claim is None else self.labels.fields
        return self.kept_labels

    @cached_property
    def encoder(self) -> Encoder:
        """The tokenizer with its preprocessing; reading it takes a while."""
        return Encoder(self.tokenizer_json, self.preprocessing)


def start_from(
    source: str,  # minilm, minilm-text, small, a checkpoint or run, a transformers folder or hub id
    labels: LabelSet | None,  # None for those of a checkpoint, which no document then has a say in
    *,
    max_tokens: int = 128,
    box_level: str = "word",
    images: bool = False,
    word_order: str = "given",
    new_labels: bool = False,  # put a new output layer on a checkpoint with other labels
    vocabulary: Callable[[], Sequence[str]] | None = None,
    resumed: Path | None = None,
    seed: int = 0,  # of fresh weights
) -> Start:
    """Returns the model that training starts from.

    A hushdoc checkpoint keeps its own window length, box level, word order and use of images, which
    LayoutLMv3 alone reads. "minilm-text" is MiniLM as it is, which reads words alone: as BERT and
    RoBERTa do, it has the box level "none". A resumed small model takes its tokenizer from its run
    folder, because learning one anew from the public texts of `vocabulary` gives another.
    """
    torch.manual_seed(seed)
    folder = Path(source)
    if is_checkpoint(source):
        stored = Checkpoint.load(folder)
        if images and stored.preprocessing.image is None:
            raise CheckpointError(
                f"The checkpoint '{stored.folder}' was trained without images and keeps to that. "
                "Train it with images from the start, or leave them out here."
            )
        model = layout.load(stored.folder, stored.architecture)
        _require_fit(model, stored.preprocessing)
        kept: tuple[str, ...] | None = None
        if labels is not None and new_labels:
            kept = layout.replace_output_layer(model, labels, before=stored.labels)
        else:
            if labels is not None:
                stored.require_labels(labels)
            labels = stored.labels
        earlier_steps.read(model, stored.claim)
        return Start(
            model=model,
            tokenizer_json=stored.tokenizer_json,
            preprocessing=stored.preprocessing,
            labels=labels,
            claim=stored.claim,
            name=f"checkpoint of {stored.architecture}",
            kept_labels=kept,
        )
    if (folder / "run.json").is_file():
        raise CheckpointError(
            f"The run in '{folder}' has not finished, so it has no checkpoint to start from. "
            "Finish it with --resume first."
        )
    if labels is None:
        raise ValueError(f"'{source}' is no checkpoint, so it knows no labels; give some.")
    if source in ("minilm", "minilm-text"):
        model, tokenizer_json, special = layout.minilm(labels, boxes=source == "minilm")
    elif source == "small":
        learned = starts.learned_tokenizer(layout.wordpiece, vocabulary, resumed)
        model, tokenizer_json, special = layout.small(labels, learned)
    else:
        model, tokenizer_json, special = layout.pretrained(source, labels)
    if not model.reads_boxes and box_level == "word":  # the default of every start
        box_level = "none"
    fitting.require_boxes(model.architecture, box_level=box_level, word_order=word_order)
    preprocessing = Preprocessing(
        max_tokens=max_tokens,
        overlap=max_tokens // 4,
        box_level=box_level,
        word_order=word_order,
        cls_id=special.cls_id,
        sep_id=special.sep_id,
        pad_id=special.pad_id,
        image=layout.image_preprocessing(model) if images else None,
    )
    _require_fit(model, preprocessing)
    return Start(
        model=model,
        tokenizer_json=tokenizer_json,
        preprocessing=preprocessing,
        labels=labels,
        claim=None,
        name=source,
    )


def _require_fit(model: TokenClassifier, preprocessing: Preprocessing) -> None:
    """Raises a CheckpointError unless a model reads what its preprocessing makes."""
    fitting.require_boxes(
        model.architecture,
        box_level=preprocessing.box_level,
        word_order=preprocessing.word_order,
    )
    fitting.require_window(model.inner.config, max_tokens=preprocessing.max_tokens)


def is_checkpoint(source: str) -> bool:
    """Returns whether a start is a hushdoc checkpoint or a run folder that holds one."""
    folder = Path(source)
    return (folder / "checkpoint.json").is_file() or (folder / "checkpoint").is_dir()


def reads_images(source: str) -> bool:
    """Returns whether a start is a hushdoc checkpoint or run folder that reads images."""
    return is_checkpoint(source) and Checkpoint.load(Path(source)).preprocessing.image is not None
