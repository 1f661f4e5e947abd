"""GraphClassifier: the scores of classes by a graph that reads text, layout or images.

Long documents are read whole: the logits of all their windows are averaged, weighted by tokens, and
those of all their images alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np

from hushdoc.artifact.artifact import Artifact
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError
from hushdoc.runtime import images, windows
from hushdoc.runtime.decoding import FloatArray, softmax
from hushdoc.runtime.encoding import (
    PIXELS,
    EncodedPage,
    Encoder,
    Preprocessing,
    in_order,
    laid_out,
    texts_of,
)
from hushdoc.runtime.extraction import StageClock
from hushdoc.runtime.graph_batches import in_halves, open_graph, output_width, window_outputs
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.label_scores import NOTHING_READ, ClassReading
from hushdoc.runtime.model import LABELS_FILE, read_names, require_pages
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime, Session
from hushdoc.viewing.rendition import require_pillow

TASK = "classification"
MODALITY_KEY = "modality"
"""Key of the manifest's preprocessing that says what the model reads, a key of INPUTS."""

INPUTS: Mapping[str, tuple[str, ...]] = {
    "text": ("input_ids", "attention_mask"),
    "layout": ("input_ids", "bbox", "attention_mask"),
    "image": (PIXELS,),
}

MAX_BATCH_IMAGES = 4
"""Images that one run of the graph gets: bounds the working memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphClassifier:
    """A checked graph, its classes in the order of its outputs, and the contract of its inputs."""

    labels: tuple[str, ...]
    modality: str
    preprocessing: Preprocessing | ImagePreprocessing
    encoder: Encoder | None
    session: Session

    @property
    def device(self) -> str:
        """What runs the graph."""
        return self.session.device

    @property
    def scoring(self) -> Scoring | None:
        """How scores are calibrated; None for raw scores."""
        return self.preprocessing.scores

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the classifier of an artifact that was opened, and thereby checked, already."""
        labels = read_names(artifact, "labels")
        settings = dict(artifact.manifest["preprocessing"])
        modality = settings.pop(MODALITY_KEY, None)
        if not isinstance(modality, str) or modality not in INPUTS:
            raise ArtifactError(
                f"The model reads {modality!r}; this version knows {', '.join(INPUTS)}. Install "
                "the version of hushdoc that wrote it."
            )
        encoder: Encoder | None = None
        image: ImagePreprocessing | None = None
        preprocessing: Preprocessing | ImagePreprocessing
        if modality == "image":
            require_pillow()
            preprocessing = image = ImagePreprocessing.from_dict(settings)
        else:
            preprocessing = Preprocessing.from_dict(settings)
            encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        inputs = INPUTS[modality]
        session = open_graph(artifact, inputs, device=device, runtime=runtime, image=image)
        what = f"{LABELS_FILE} with {len(labels)} labels"
        output_width(session, ("batch",), width=len(labels), what=what)
        return cls(
            labels=labels,
            modality=modality,
            preprocessing=preprocessing,
            encoder=encoder,
            session=session,
        )

    def read(self, document: Document, *, temperature: float, clock: StageClock) -> ClassReading:
        """Returns the probability of each class, before calibration."""
        warnings: tuple[str, ...] = ()
        coverage = 1.0
        if isinstance(self.preprocessing, ImagePreprocessing):
            require_pages(document, reads="the images of pages")
            logits = self._of_images(document, self.preprocessing, clock)
        else:
            encoded, warnings = self._encoded(document, self.preprocessing)
            clock.count("encoding")
            logits = self._of_pages(encoded, self.preprocessing)
            coverage = windows.coverage(encoded)
            if not any(len(page.ids) for page in encoded):
                coverage = 0.0
                warnings += (NOTHING_READ,)
        scores = softmax((logits / temperature)[None])[0]
        return ClassReading(raw_scores=scores, coverage=coverage, warnings=warnings)

    def _encoded(
        self, document: Document, settings: Preprocessing
    ) -> tuple[list[EncodedPage], tuple[str, ...]]:
        """Returns the tokens of each page, and what the caller should know."""
        assert self.encoder is not None  # only models of images have none
        notes: tuple[str, ...] = ()
        numbers: tuple[Sequence[int], ...] | None = None
        if self.modality == "layout":
            require_pages(document, reads="words and their boxes")
            document.check()
            document, notes = laid_out(document, settings)
            document, numbers = in_order(document, settings)
            encoded = [self.encoder.encode(page) for page in document.pages]
        else:
            encoded = [self.encoder.encode_text(text) for text in texts_of(document, settings)]
        losses = windows.losses(encoded, capacity=settings.capacity, numbers=numbers)
        return encoded, (*losses, *notes)

    def _of_pages(self, pages: Sequence[EncodedPage], settings: Preprocessing) -> FloatArray:
        """Returns the mean logits over all windows; of no window at all, those of an empty one."""
        encoder = self.encoder
        assert encoder is not None  # only models of images have none
        plan = windows.cover(pages, capacity=settings.capacity, overlap=settings.overlap)
        plan = plan or [windows.Window(page=0, start=0, stop=0)]
        total = np.zeros(len(self.labels))
        weight = 0
        for batch, logits in window_outputs(self.session, encoder, pages, plan):
            tokens = np.asarray([part.num_tokens + 2 for part in batch])
            total += (logits.astype(np.float64) * tokens[:, None]).sum(axis=0)
            weight += int(tokens.sum())
        return np.asarray(total / weight, dtype=np.float64)

    def _of_images(
        self, document: Document, settings: ImagePreprocessing, clock: StageClock
    ) -> FloatArray:
        """Returns the mean logits over all images; drawing them counts as encoding."""
        total = np.zeros(len(self.labels))
        source = images.page_pixels(document, settings)
        at_once = 1 if self.session.scaled_by_run else MAX_BATCH_IMAGES
        while batch := list(islice(source, at_once)):
            clock.count("encoding")
            for _, logits in in_halves(self.session, batch, lambda some: {PIXELS: np.stack(some)}):
                total += logits.astype(np.float64).sum(axis=0)
            clock.count("model")
        return np.asarray(total / len(document.pages), dtype=np.float64)
