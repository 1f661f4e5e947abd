"""Records: labelled documents cut into windows, grouped by the privacy unit they belong to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.labels import (
    LabelledDocument,
    LabelSet,
    Span,
    spans_from_tags,
    spans_from_words,
    tags_of_pages,
)
from hushdoc.runtime import decoding, encoding, windows
from hushdoc.runtime.encoding import EncodedPage, Encoder, IntArray, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing, Pixels, pixels_of_page
from hushdoc_training import duplicates
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.kie.identity import content

Image = Callable[[], Pixels]
"""Draws a page's image as the model reads it. It is asked for each batch anew, so that the pixels
of a whole data set are never in memory."""

IGNORED = -100
"""The target of tokens that carry no label: special ones, padding, and all but a word's first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A range of a page's tokens with a target for each; the papers call it a sequence.

    Windows of one page share one `image`; it is None where the model reads words and boxes alone.
    """

    page: EncodedPage
    start: int
    stop: int
    targets: IntArray
    image: Image | None = None
    annotated: BoolArray | None = None  # of the tags, those its data set uses; None for all


BoolArray = npt.NDArray[np.bool_]

Record = tuple[Window, ...]
"""What is clipped once: all windows of a document, or one window, as the privacy unit says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorBatch:
    """Model inputs and targets; targets have shape [batch, sequence]."""

    input_ids: torch.Tensor
    bbox: torch.Tensor
    attention_mask: torch.Tensor
    targets: torch.Tensor
    pixel_values: torch.Tensor | None = None
    annotated: torch.Tensor | None = None  # [batch, tags]

    def inputs(self, device: torch.device) -> list[torch.Tensor]:
        """Returns what a TokenClassifier takes, in its order, on a device."""
        inputs = [self.input_ids, self.bbox, self.attention_mask]
        if self.pixel_values is not None:
            inputs.append(self.pixel_values)
        return [value.to(device) for value in inputs]


def windows_of(
    labelled: LabelledDocument, encoder: Encoder, labels: LabelSet, *, alone: bool = False
) -> list[Window]:
    """Returns a document's windows with their targets.

    Only the first token of a word carries its label (PrIeD-KIE, section 4.2). Windows that are to
    be `alone` have no box that says where words of others stand.
    """
    number = {tag: index for index, tag in enumerate(labels.tags)}
    made = []
    pages = zip(labelled.document.pages, tags_of_pages(labelled), strict=True)
    for index, (page, names) in enumerate(pages):
        tags = np.asarray([number[tag] for tag in names])
        encoded = encoder.encode(page)
        image = image_of(labelled.document, index, encoder.preprocessing.image)
        targets = np.where(encoded.first, tags[encoded.words], IGNORED)
        capacity = encoder.preprocessing.capacity
        for start, stop in windows.split(encoded, capacity=capacity, overlap=0):
            shared = alone and encoder.preprocessing.box_level == "segment"
            made.append(
                Window(
                    page=_with_own_segments(encoded, start, stop, page) if shared else encoded,
                    start=start,
                    stop=stop,
                    targets=targets[start:stop],
                    image=image,
                )
            )
    return made


def _with_own_segments(encoded: EncodedPage, start: int, stop: int, page: Page) -> EncodedPage:
    """Returns a page on which a window's segments reach around its own words alone."""
    words = encoded.words[start:stop]
    first = int(words[0])
    own = replace(page, words=page.words[first : int(words[-1]) + 1]).segment_boxes()
    scaled = [box.normalized(width=page.width, height=page.height) for box in own]
    boxes = encoded.boxes.copy()
    boxes[start:stop] = np.asarray(scaled, dtype=np.int64)[words - first]
    return replace(encoded, boxes=boxes)


def known_labels(
    documents: Sequence[LabelledDocument], labels: LabelSet, *, warned: bool
) -> list[LabelledDocument]:
    """Returns documents without spans of other labels: what they cover is outside of all fields.

    A document with such a span would otherwise be refused, and whether a run starts would tell that
    it is there. A warning counts them, but where un-noised numbers are hidden.
    """
    fields = set(labels.fields)
    others = sum(any(span.label not in fields for span in item.spans) for item in documents)
    if others and warned:
        warnings.warn(
            f"{others} documents have labels that the model does not learn; what they cover counts "
            "as outside of all fields. Name them with --label if it should.",
            stacklevel=2,
        )
    return [
        replace(item, spans=tuple(span for span in item.spans if span.label in fields))
        for item in documents
    ]


def without_copies(documents: Sequence[LabelledDocument], *, told: bool) -> list[LabelledDocument]:
    """Returns one of all documents with the same words; see `duplicates`."""
    return duplicates.distinct(
        documents,
        texts=lambda labelled: (
            word.text for page in labelled.document.pages for word in page.words
        ),
        content=content,
        told=told,
    )


def image_of(document: Document, number: int, settings: ImagePreprocessing | None) -> Image | None:
    """Returns what draws a page's image; None where the model reads none."""
    return None if settings is None else partial(pixels_of_page, document, number, settings)


def drawn(images: Sequence[Image | None]) -> list[Pixels] | None:
    """Returns a batch's images, each page's drawn once; None where the model reads none."""
    asked = {id(image): image for image in images if image is not None}
    found = {key: image() for key, image in asked.items()}
    return [found[id(image)] for image in images] if found else None


def records_of(
    documents: Iterable[LabelledDocument], encoder: Encoder, labels: LabelSet, *, unit: str
) -> Records[Window]:
    """Returns the records that a privacy unit, document or sequence, makes of documents."""
    ordered = in_order(documents, encoder.preprocessing)
    apart = unit == "sequence"
    grouped = [tuple(windows_of(labelled, encoder, labels, alone=apart)) for labelled in ordered]
    if unit == "sequence":
        alone: list[Record] = [(window,) for record in grouped for window in record]
        return Records(alone, unit="sequence")
    return Records(grouped, unit="document")


def collate(encoder: Encoder, parts: Sequence[Window]) -> TensorBatch:
    """Returns windows padded into one batch."""
    batch = encoder.batch(
        [(part.page, part.start, part.stop) for part in parts],
        pixel_values=drawn([part.image for part in parts]),
    )
    targets = np.full(batch["input_ids"].shape, IGNORED, dtype=np.int64)
    for row, part in enumerate(parts):
        targets[row, 1 : 1 + len(part.targets)] = part.targets
    masks = [part.annotated for part in parts]
    known = [mask for mask in masks if mask is not None]
    if 0 < len(known) < len(masks):
        raise ValueError("Windows with and without a mask of tags can't be in one batch.")
    return TensorBatch(
        targets=torch.from_numpy(targets),
        annotated=torch.from_numpy(np.stack(known)) if known else None,
        **{name: torch.from_numpy(value) for name, value in batch.items()},
    )


def mixed_precision(device: torch.device) -> torch.autocast:
    """Computes in bfloat16 unless this processor only emulates it, in twice float32's time."""
    native = device.type != "cpu"
    if not native:
        # Old releases of torch can't tell.
        known: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
        native = any(there for name, there in known.items() if name.endswith("bf16"))
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=native)


def loss_of(
    model: TokenClassifier,
    batch: TensorBatch,
    *,
    device: torch.device,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Returns the mean cross-entropy over the batch's labelled tokens; 0 where there is none.

    Tags that a window's data set does not use are left out of the softmax, so that a word that it
    does not label teaches nothing about them.
    """
    with mixed_precision(device):
        logits = model(*batch.inputs(device))
    targets = batch.targets.to(device).flatten()
    if batch.annotated is not None:
        unused = ~batch.annotated.to(device)[:, None].expand_as(logits).flatten(0, 1)
        return _masked_loss(
            logits.float().flatten(0, 1), unused, targets, label_smoothing=label_smoothing
        )
    total = functional.cross_entropy(
        logits.float().flatten(0, 1),
        targets,
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    return total / (targets != IGNORED).sum().clamp(min=1)


def _masked_loss(
    logits: torch.Tensor, unused: torch.Tensor, targets: torch.Tensor, *, label_smoothing: float
) -> torch.Tensor:
    """Returns the mean cross-entropy among the tags that are used, shape [] from [tokens, tags]."""
    labelled = targets != IGNORED
    logs = logits[labelled].masked_fill(unused[labelled], -torch.inf).log_softmax(-1)
    used = ~unused[labelled]
    right = logs.gather(1, targets[labelled, None]).sum()
    spread = (logs.masked_fill(~used, 0).sum(1) / used.sum(1)).sum()
    total = -(1 - label_smoothing) * right - label_smoothing * spread
    return total / labelled.sum().clamp(min=1)


def predict(
    model: TokenClassifier,
    encoder: Encoder,
    labels: LabelSet,
    documents: Sequence[LabelledDocument],
    *,
    device: torch.device,
    batch_size: int = 16,
) -> list[list[Span]]:
    """Returns the spans the model finds, windows overlapped and merged as at run time."""
    settings = encoder.preprocessing
    pages = [
        (item, number, encoder.encode(page))
        for item, labelled in enumerate(documents)
        for number, page in enumerate(labelled.document.pages)
    ]
    images = [
        image_of(documents[item].document, number, settings.image) for item, number, _ in pages
    ]
    ranges = [
        windows.split(page, capacity=settings.capacity, overlap=settings.overlap)
        for _, _, page in pages
    ]
    work = [(at, part) for at, parts in enumerate(ranges) for part in range(len(parts))]
    work.sort(key=lambda place: ranges[place[0]][place[1]][1] - ranges[place[0]][place[1]][0])
    outputs: list[list[windows.FloatArray]] = [
        [np.empty((0, 0), dtype=np.float32)] * len(parts) for parts in ranges
    ]
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for first in range(0, len(work), batch_size):
            chosen = work[first : first + batch_size]
            batch = encoder.batch(
                [(pages[at][2], *ranges[at][part]) for at, part in chosen],
                pixel_values=drawn([images[at] for at, _ in chosen]),
            )
            logits = model(*(torch.from_numpy(value).to(device) for value in batch.values()))
            scores = logits.float().softmax(-1).cpu().numpy()
            for row, (at, part) in enumerate(chosen):
                start, stop = ranges[at][part]
                outputs[at][part] = scores[row, 1 : 1 + stop - start]
    model.train(was_training)
    found: list[list[Span]] = [[] for _ in documents]
    for (item, number, page), parts, scored in zip(pages, ranges, outputs, strict=True):
        if not parts:
            continue
        words = documents[item].document.pages[number]
        joined = decoding.joined_words(words) if settings.box_level == "segment" else None
        path = decoding.viterbi(windows.merge(page, parts, scored).astype(np.float64), joined)
        tags = [labels.tags[index] for index in path]
        found[item].extend(spans_from_tags(tags, page=number))
    return found


def in_order(
    documents: Iterable[LabelledDocument], preprocessing: Preprocessing
) -> list[LabelledDocument]:
    """Returns documents with their words as the model reads them, labels moved along.

    A model of segments has lines found on pages without any, as at run time. A field between whose
    words others now stand becomes one field for each part, because that is all its tags can say.
    Documents that are in order stay as they are.
    """
    if preprocessing.box_level == "segment":
        documents = [
            replace(item, document=encoding.laid_out(item.document, preprocessing)[0])
            for item in documents
        ]
    if preprocessing.word_order == "given":
        return list(documents)
    return [_ordered(labelled, preprocessing) for labelled in documents]


def _ordered(labelled: LabelledDocument, preprocessing: Preprocessing) -> LabelledDocument:
    document, numbers = encoding.in_order(labelled.document, preprocessing)
    places = [{old: new for new, old in enumerate(order)} for order in numbers]
    return replace(
        labelled,
        document=document,
        spans=tuple(part for span in labelled.spans for part in _parts(span, places[span.page])),
        questions=tuple(
            replace(asked, word_ids=tuple(places[asked.page][word] for word in asked.word_ids))
            for asked in labelled.questions
        ),
    )


def _parts(span: Span, places: Mapping[int, int]) -> list[Span]:
    words = [places[word] for word in range(span.start, span.stop)]
    return spans_from_words(words, label=span.label, page=span.page)
