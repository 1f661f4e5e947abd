"""Key information extraction: documents in, typed fields out.

A model is built only from an artifact that passed every check, and holds no state between
calls: many threads may share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Self

import numpy as np

from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document, required
from hushdoc.document.page import Page, union
from hushdoc.errors import ArtifactError
from hushdoc.labels import LabelSet, spans_from_tags
from hushdoc.runtime import images, windows
from hushdoc.runtime.decoding import FloatArray, joined_words, softmax, viterbi
from hushdoc.runtime.encoding import PIXELS, EncodedPage, Encoder, Preprocessing, in_order, laid_out
from hushdoc.runtime.extraction import Extraction, Field, Timings
from hushdoc.runtime.graph_batches import open_graph, window_outputs
from hushdoc.runtime.model import (
    FieldModel,
    read_names,
    require_class,
    require_pages,
    unreadable_names,
)
from hushdoc.runtime.scoring import judged
from hushdoc.runtime.session import Array, Runtime, Session
from hushdoc.runtime.windows import Window
from hushdoc.viewing.rendition import require_pillow

TASK = "kie"
INPUTS = ("input_ids", "bbox", "attention_mask")
"""What every model reads; one that reads images has `pixel_values` too."""

PAGES_AT_ONCE = 8
"""Pages whose images, as the model reads them, are in memory together."""

PATCH = 16
"""Side of the patches (pixels) that images are counted in where batches are made."""


class KIEModel(FieldModel):
    """A verified model that finds the fields of documents.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The fields it can find.
        preprocessing: How words, and pages where it reads their images, become its inputs.
    """

    def __init__(
        self,
        *,
        certificate: Certificate,
        labels: LabelSet,
        preprocessing: Preprocessing,
        encoder: Encoder,
        session: Session,
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.labels = labels
        self.preprocessing = preprocessing
        self._encoder = encoder
        self._session = session

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        require_class(artifact.certificate.model, "KIEModel")
        labels = _labels_of(artifact)
        settings = artifact.manifest["preprocessing"]
        preprocessing = Preprocessing.from_dict(settings, images=True)
        if preprocessing.image is not None:
            require_pillow()
        encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        inputs = INPUTS if preprocessing.image is None else (*INPUTS, PIXELS)
        session = open_graph(artifact, inputs, device=device, runtime=runtime)
        _require_fit(session, labels, preprocessing)
        return cls(
            certificate=artifact.certificate,
            labels=labels,
            preprocessing=preprocessing,
            encoder=encoder,
            session=session,
        )

    def extract(self, document: Document) -> Extraction:
        """Returns the fields of a document; pages longer than a window are read in several.

        Args:
            document: Its pages; where the model reads images, each page with words needs one.

        Raises:
            EmptyDocumentError: The document has no page or no word.
            BoxError: A box is NaN, swapped or off its page.
            InputError: It is no document, a page has no area, a word is empty or not valid Unicode,
                or a page has no image (NO_IMAGE) and the model reads it.
            TaskMismatchError: The document is a plain text.
            LimitExceededError: The runtime's memory limit is too small for one window.
        """
        require_pages(required(document), reads="words and their boxes")
        document.check()
        began = perf_counter()
        document, notes = laid_out(document, self.preprocessing)
        document, numbers = in_order(document, self.preprocessing)
        encoded = [self._encoder.encode(page) for page in document.pages]
        parts = windows.cover(
            encoded, capacity=self.preprocessing.capacity, overlap=self.preprocessing.overlap
        )
        ready = perf_counter()
        outputs, drawing = self._answers(document, encoded, parts)
        answered = perf_counter()
        fields: list[Field] = []
        for number, (page, tokens) in enumerate(zip(document.pages, encoded, strict=True)):
            scores = self._word_scores(number, tokens, outputs)
            fields += self._fields(page, number, scores, numbers[number])
        sure, unsure = judged(fields, self.preprocessing.scores)
        capacity = self.preprocessing.capacity
        return Extraction(
            document_id=document.id,
            fields=sure,
            below_threshold=unsure,
            coverage=windows.coverage(encoded),
            warnings=(*windows.losses(encoded, capacity=capacity, numbers=numbers), *notes),
            source=document.source,
            timings=Timings(
                encoding_seconds=ready - began + drawing,
                model_seconds=answered - ready - drawing,
                decoding_seconds=perf_counter() - answered,
            ),
        )

    def _answers(
        self, document: Document, pages: Sequence[EncodedPage], parts: Sequence[Window]
    ) -> tuple[dict[Window, FloatArray], float]:
        """Returns each window's tag probabilities, and the seconds that drawing images took."""
        image = self.preprocessing.image
        if image is None:
            return self._run(pages, parts), 0.0
        outputs: dict[Window, FloatArray] = {}
        drawing = 0.0
        for group in windows.by_pages(parts, at_once=PAGES_AT_ONCE):
            began = perf_counter()
            drawn = {
                number: images.pixels_of_page(document, number, image)
                for number in {part.page: None for part in group}
            }
            drawing += perf_counter() - began
            outputs |= self._run(pages, group, drawn)
        return outputs, drawing

    def _run(
        self,
        pages: Sequence[EncodedPage],
        parts: Sequence[Window],
        drawn: Mapping[int, images.Pixels] | None = None,
    ) -> dict[Window, FloatArray]:
        """Returns each window's tag probabilities, shape [tokens, tags]."""
        outputs: dict[Window, FloatArray] = {}
        scoring = self.preprocessing.scores
        temperature = 1.0 if scoring is None else scoring.temperature

        def inputs(batch: Sequence[Window]) -> Mapping[str, Array]:
            return self._encoder.batch(
                [(pages[part.page], part.start, part.stop) for part in batch],
                pixel_values=None if drawn is None else [drawn[part.page] for part in batch],
            ).to_inputs()

        patches = _patches(self.preprocessing.image)
        for batch, logits in window_outputs(self._session, parts, inputs, patches=patches):
            for row, part in enumerate(batch):
                # The first position is the opening special token.
                outputs[part] = softmax(logits[row, 1 : part.num_tokens + 1] / temperature)
        return outputs

    def _word_scores(
        self, number: int, page: EncodedPage, outputs: dict[Window, FloatArray]
    ) -> FloatArray:
        """Returns one row of tag probabilities for each word; NaN for words never read."""
        mine = sorted(
            (part for part in outputs if part.page == number), key=lambda part: part.start
        )
        if not mine:
            return np.full((page.num_words, len(self.labels.tags)), np.nan)
        ranges = [(part.start, part.stop) for part in mine]
        rows = [outputs[part].astype(np.float32) for part in mine]
        return windows.merge(page, ranges, rows).astype(np.float64)

    def _fields(
        self, page: Page, number: int, scores: FloatArray, numbers: Sequence[int]
    ) -> list[Field]:
        """Returns a page's fields, their words called by these numbers."""
        by_segment = self.preprocessing.box_level == "segment"
        path = viterbi(scores, joined_words(page) if by_segment else None)
        tags = self.labels.tags
        chosen = scores[np.arange(len(path)), path]
        fields = []
        for span in spans_from_tags([tags[tag] for tag in path], page=number):
            words = page.words[span.start : span.stop]
            box = union(word.box for word in words)
            fields.append(
                Field(
                    label=span.label,
                    text=" ".join(word.text for word in words),
                    score=float(np.nanmean(chosen[span.start : span.stop])),
                    box=box,
                    page=number,
                    word_ids=tuple(numbers[span.start : span.stop]),
                    normalized=box.normalized(width=page.width, height=page.height),
                )
            )
        return fields


def _labels_of(artifact: Artifact) -> LabelSet:
    names = read_names(artifact, "fields")
    try:
        labels = LabelSet(fields=names)
        if labels.fields != names:
            raise ValueError("the names must be sorted")
    except ValueError as error:
        raise unreadable_names(error, "fields") from error
    return labels


def _patches(image: images.ImagePreprocessing | None) -> int:
    return 0 if image is None else image.height * image.width // PATCH**2 + 1


def _require_fit(session: Session, labels: LabelSet, settings: Preprocessing) -> None:
    """Raises unless the graph fits the labels and the images."""
    image = settings.image
    if image is not None:
        shape, size = session.inputs[PIXELS], [3, image.height, image.width]
        if shape[1:] != size:
            raise ArtifactError(
                f"The graph reads images of the shape {shape} and the manifest makes them "
                f"{size} each. Export the artifact again."
            )
    found = list(session.outputs.values())
    if len(found) != 1 or len(found[0]) != 3 or found[0][-1] != len(labels.tags):
        raise ArtifactError(
            f"The graph's outputs have the shapes {found}; labels.json with "
            f"{len(labels.fields)} fields needs one of [batch, sequence, {len(labels.tags)}]. "
            "Export the artifact again from a checkpoint whose labels are its model's."
        )
