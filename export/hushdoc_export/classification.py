"""Classifiers of text, layout and images become artifacts for `hushdoc.ClassificationModel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError, LabelMismatchError
from hushdoc.labels import LabelSet
from hushdoc.runtime import images
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.graph_classifier import INPUTS, MODALITY_KEY, TASK
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.model import LABELS_FILE
from hushdoc_export import graph, probes, sealing
from hushdoc_export.embedding import unlimited
from hushdoc_export.release import LOADED, Release, Seen, origin_of, seal, unseen
from hushdoc_training.image_checkpoint import ImageCheckpoint

OUTPUT = "logits"

_RESAMPLES = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of filters, which is what published preprocessors hold."""


def export_text_classifier(
    model: Any,
    out: Path,
    release: Release,
    *,
    labels: Sequence[str],
    tokenizer_json: str,
    preprocessing: Preprocessing,
    claim: Claim,
    layout: bool = False,
) -> Path:
    """Returns the folder of the artifact that was made from a classifier of text.

    Args:
        model: A transformers model for the classification of sequences: its forward(input_ids,
            attention_mask), with `layout` also bbox, answers with `logits`.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        labels: The names of its outputs, in their order.
        tokenizer_json: Its tokenizer, in Hugging Face's format.
        preprocessing: Its windows, boxes and special tokens.
        claim: What training declares about privacy.
        layout: Whether it reads boxes too: LayoutLM, LayoutLMv3 without images, LiLT.

    Raises:
        LabelMismatchError: The model has another number of outputs than there are labels.
        HushdocError: What `release.seal` raises.
    """
    _require_labels(model, labels)
    modality = "layout" if layout else "text"
    traceable = probes.of_text(
        _logits(model, modality),
        preprocessing,
        vocab_size=model.config.vocab_size,
        output=OUTPUT,
        boxes=layout,
    )
    return seal(
        out,
        traceable,
        release,
        task=TASK,
        claim=claim,
        preprocessing={**preprocessing.to_dict(), MODALITY_KEY: modality},
        contents={LABELS_FILE: _named(labels), "tokenizer.json": unlimited(tokenizer_json)},
        labels=LabelSet(fields=tuple(labels)),
    )


def export_image_classifier(
    model: Any,
    out: Path,
    release: Release,
    *,
    labels: Sequence[str],
    preprocessing: ImagePreprocessing,
    claim: Claim,
) -> Path:
    """Returns the folder of the artifact that was made from a classifier of images.

    Args:
        model: A transformers model for the classification of images, such as ResNet, ConvNeXt or
            BEiT, which DiT is: its forward(pixel_values) answers with `logits`.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        labels: The names of its outputs, in their order.
        preprocessing: How images become its inputs; `image_preprocessing` reads a published
            processor.
        claim: What training declares about privacy.

    Raises:
        LabelMismatchError: The model has another number of outputs than there are labels.
        HushdocError: What `release.seal` raises.
    """
    _require_labels(model, labels)
    return seal(
        out,
        probes.of_images(_logits(model, "image"), preprocessing, output=OUTPUT),
        release,
        task=TASK,
        claim=claim,
        preprocessing={**preprocessing.to_dict(), MODALITY_KEY: "image"},
        contents={LABELS_FILE: _named(labels)},
        labels=LabelSet(fields=tuple(labels)),
    )


def export(checkpoint_folder: Path, out: Path, release: Release, *, seen: Seen = unseen) -> Path:
    """Returns the folder of the artifact that was made from a run of `hushdoc train images`.

    Args:
        checkpoint_folder: What training wrote, or the run folder around it.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        seen: Is told how much is done, of 100.

    Raises:
        CheckpointError: The checkpoint is damaged, or its parts do not fit one another.
        HushdocError: What `release.seal` raises.
    """
    graph.require_packages()
    from hushdoc_training.models import image_classifier

    stored = ImageCheckpoint.load(checkpoint_folder)
    with graph.silence():
        model = image_classifier.load(stored.folder, stored.architecture, len(stored.labels))
    seen(LOADED, 100)
    return seal(
        out,
        probes.of_images(_logits(model, "image"), stored.preprocessing, output=OUTPUT),
        release,
        task=TASK,
        claim=stored.claim,
        preprocessing={**stored.preprocessing.to_dict(), MODALITY_KEY: "image"},
        contents={LABELS_FILE: _named(stored.labels)},
        labels=LabelSet(fields=stored.labels),
        origin=origin_of(stored.folder, stored.architecture),
        seen=seen,
    )


def image_preprocessing(processor: Any) -> ImagePreprocessing:
    """Returns the settings of a published image processor of transformers.

    Args:
        processor: Of ResNet, ConvNeXt, ViT, BEiT or DiT.

    Raises:
        CheckpointError: It does something that the runtime does not do.
    """
    published = processor.to_dict()
    size = published.get("size") or {}
    cuts = bool(published.get("do_center_crop"))
    settings: dict[str, Any] = {}
    if "shortest_edge" in size and not cuts:
        # As ConvNeXt does: below 384 pixels the middle is cut out, else the image is stretched.
        side = int(size["shortest_edge"])
        settings = {"height": side, "width": side}
        if side < 384:
            share = float(published.get("crop_pct") or 224 / 256)
            settings |= {"fit": "crop", "crop_share": share}
    elif {"height", "width"} <= size.keys() and not cuts:
        settings = {"height": int(size["height"]), "width": int(size["width"])}
    if _is_plain(published) and settings:
        found = ImagePreprocessing(
            **settings,
            resample=_RESAMPLES[int(published["resample"])],
            mean=tuple(published["image_mean"]),
            std=tuple(published["image_std"]),
        )
        if _makes_alike(processor, found):
            return found
    raise CheckpointError(
        f"The image processor {type(processor).__name__} with the size {dict(size)} prepares "
        "images in a way that the runtime does not know. Give an ImagePreprocessing of your own."
    )


def _is_plain(published: Mapping[str, Any]) -> bool:
    """Returns whether images are resized, scaled from bytes and normalised, as the runtime does."""
    steps = ("do_resize", "do_rescale", "do_normalize")
    return (
        {"image_mean", "image_std"} <= published.keys()
        and all(published.get(step, True) for step in steps)
        and abs(published.get("rescale_factor", 1 / 255) * 255 - 1) < 1e-6
        and int(published.get("resample", -1)) in _RESAMPLES
    )


def _makes_alike(processor: Any, settings: ImagePreprocessing) -> bool:
    """Returns whether a processor makes of two invented images what the runtime makes of them.

    Some do more than they declare by names that others have: they turn colours round, pad, or
    normalise twice.
    """
    from PIL import Image

    blocks = np.random.default_rng(7).integers(0, 256, size=(8, 6, 3), dtype=np.uint8)
    step = 1 / 255 / min(settings.std)
    for size in ((300, 420), (420, 300)):
        image = Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)
        try:
            expected = np.asarray(processor(image, return_tensors="np")["pixel_values"][0])
        except Exception:  # of whatever it does besides
            return False
        found = images.pixels(image, settings)
        # Resizing rounds to whole steps, by which libraries may differ.
        if found.shape != expected.shape or not np.abs(found - expected).mean() <= step:
            return False
    return True


def _named(labels: Sequence[str]) -> bytes:
    return sealing.dump({"labels": list(labels)})


def _require_labels(model: Any, labels: Sequence[str]) -> None:
    found = int(model.config.num_labels)
    if len(labels) != found or len(set(labels)) != found:
        raise LabelMismatchError(
            f"The model answers with {found} numbers and there are {len(set(labels))} different "
            f"labels of {len(labels)}. Name each output once, in their order."
        )


def _logits(classifier: Any, modality: str) -> Any:
    """Returns a module whose one answer are the classifier's logits."""
    import torch

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classifier = classifier

    class Text(Logits):
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.classifier(input_ids=input_ids, attention_mask=attention_mask).logits

    class Layout(Logits):
        def forward(self, input_ids: Any, bbox: Any, attention_mask: Any) -> Any:
            return self.classifier(
                input_ids=input_ids, bbox=bbox, attention_mask=attention_mask
            ).logits

    class Images(Logits):
        def forward(self, pixel_values: Any) -> Any:
            return self.classifier(pixel_values=pixel_values).logits

    assert modality in INPUTS
    return {"text": Text, "layout": Layout, "image": Images}[modality]().eval()
