"""Classifiers of text, layout and images become artifacts for `hushdoc.ClassificationModel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError, LabelMismatchError
from hushdoc.labels import LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.graph_classifier import INPUTS, MODALITY_KEY, TASK
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.model import LABELS_FILE
from hushdoc_export import graph, sealing
from hushdoc_export.embedding import freed
from hushdoc_export.release import Inputs, Release, Traceable, seal, token_axes, token_probes

OUTPUT = "logits"

_RESAMPLES = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of filters, which is how published preprocessors spell them."""


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
        claim: What training says about privacy.
        layout: Whether it reads boxes too: LayoutLM, LayoutLMv3 without images, LiLT.

    Raises:
        LabelMismatchError: The model has another number of outputs than there are labels.
        HushdocError: What `release.seal` raises.
    """
    _require_labels(model, labels)
    longest = preprocessing.max_tokens
    traceable = Traceable(
        model=_logits(model, "layout" if layout else "text"),
        free=token_axes(longest, boxes=layout),
        output=OUTPUT,
        probes=token_probes(
            model.config.vocab_size,
            max_tokens=longest,
            pad_id=preprocessing.pad_id,
            boxes=layout,
        ),
    )
    return seal(
        out,
        traceable,
        release,
        task=TASK,
        claim=claim,
        preprocessing={
            **preprocessing.to_dict(),
            MODALITY_KEY: "layout" if layout else "text",
        },
        contents={LABELS_FILE: _named(labels), "tokenizer.json": freed(tokenizer_json)},
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
        claim: What training says about privacy.

    Raises:
        LabelMismatchError: The model has another number of outputs than there are labels.
        HushdocError: What `release.seal` raises.
    """
    _require_labels(model, labels)
    traceable = Traceable(
        model=_logits(model, "image"),
        free={"pixel_values": {0: graph.BATCH}},
        output=OUTPUT,
        probes=tuple(_images(preprocessing)),
    )
    return seal(
        out,
        traceable,
        release,
        task=TASK,
        claim=claim,
        preprocessing={**preprocessing.to_dict(), MODALITY_KEY: "image"},
        contents={LABELS_FILE: _named(labels)},
        labels=LabelSet(fields=tuple(labels)),
    )


def image_preprocessing(processor: Any) -> ImagePreprocessing:
    """Returns the settings of a published image processor of transformers.

    Args:
        processor: Of ResNet, ConvNeXt, ViT, BEiT or DiT.

    Raises:
        CheckpointError: It does something that the runtime does not do.
    """
    told = processor.to_dict()
    size = told.get("size") or {}
    factor = told.get("rescale_factor", 1 / 255)
    cuts = bool(told.get("do_center_crop"))
    plain = (
        told.get("do_resize", True)
        and told.get("do_rescale", True)
        and told.get("do_normalize", True)
        and abs(factor * 255 - 1) < 1e-6
        and int(told.get("resample", -1)) in _RESAMPLES
    )
    settings: dict[str, Any] = {}
    if "shortest_edge" in size and not cuts:
        # The way of ConvNeXt: below 384 pixels the middle is cut out, else it is stretched.
        side = int(size["shortest_edge"])
        share = float(told.get("crop_pct") or 224 / 256)
        settings = {"height": side, "width": side}
        if side < 384:
            settings |= {"fit": "crop", "crop_share": share}
    elif {"height", "width"} <= size.keys() and not cuts:
        settings = {"height": int(size["height"]), "width": int(size["width"])}
    if not plain or not settings:
        raise CheckpointError(
            f"The image processor {type(processor).__name__} with the size {dict(size)} prepares "
            "images in a way that the runtime does not know. State a ImagePreprocessing."
        )
    return ImagePreprocessing(
        **settings,
        resample=_RESAMPLES[int(told["resample"])],
        mean=tuple(told["image_mean"]),
        std=tuple(told["image_std"]),
    )


def _images(settings: ImagePreprocessing) -> Iterator[Inputs]:
    """Yields invented images: several, alone, of noise, black and white."""
    generator = np.random.default_rng(20261121)
    shape = (3, settings.height, settings.width)
    mean = np.asarray(settings.mean, dtype=np.float32)[:, None, None]
    std = np.asarray(settings.std, dtype=np.float32)[:, None, None]
    noise = generator.random((2, *shape), dtype=np.float32)
    plain = np.stack([np.zeros(shape, np.float32), np.ones(shape, np.float32), noise[0]])
    for values in (noise, noise[:1], plain):
        yield {"pixel_values": (values - mean) / std}


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
