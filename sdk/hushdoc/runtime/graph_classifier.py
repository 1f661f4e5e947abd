"""GraphClassifier: the scores of classes by a graph that reads text, layout or images.

Long documents are read whole: the logits of all their windows are averaged, weighted by tokens, and
those of all their images alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Self

import numpy as np

from hushdoc.artifact.artifact import Artifact
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError
from hushdoc.runtime import images, windows
from hushdoc.runtime.decoding import FloatArray, softmax
from hushdoc.runtime.encoding import EncodedPage, Encoder, Preprocessing, in_order, laid_out
from hushdoc.runtime.graph_batches import in_halves, open_graph, window_outputs
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.label_scores import NOTHING_READ, ClassReading
from hushdoc.runtime.model import LABELS_FILE, read_names, require_pages
from hushdoc.runtime.session import Array, Runtime, Session
from hushdoc.viewing.rendition import require_pillow

TASK = "classification"
MODALITY_KEY = "modality"
"""Key of the manifest's preprocessing that says what the model reads, a key of INPUTS."""

INPUTS: Mapping[str, tuple[str, ...]] = {
    "text": ("input_ids", "attention_mask"),
    "layout": ("input_ids", "bbox", "attention_mask"),
    "image": ("pixel_values",),
}

MAX_BATCH_IMAGES = 4
"""Images that one run of the graph gets: bounds the working memory."""


class GraphClassifier:
    """A checked graph, its classes in the order of its outputs, and the contract of its inputs."""

    def __init__(
        self,
        *,
        labels: Sequence[str],
        modality: str,
        preprocessing: Preprocessing | ImagePreprocessing,
        encoder: Encoder | None,
        session: Session,
    ) -> None:
        """Keeps the checked parts; `encoder` is None for images."""
        self.labels = tuple(labels)
        self.modality = modality
        self.preprocessing = preprocessing
        self.scoring = preprocessing.scores
        self._encoder = encoder
        self._session = session

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
        preprocessing: Preprocessing | ImagePreprocessing
        if modality == "image":
            require_pillow()
            preprocessing = ImagePreprocessing.from_dict(settings)
        else:
            preprocessing = Preprocessing.from_dict(settings)
            encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        session = open_graph(artifact, INPUTS[modality], device=device, runtime=runtime)
        _require_fit(session, labels, preprocessing)
        return cls(
            labels=labels,
            modality=modality,
            preprocessing=preprocessing,
            encoder=encoder,
            session=session,
        )

    def read(self, document: Document, *, temperature: float) -> ClassReading:
        """Returns the probability of each class, before calibration."""
        began = perf_counter()
        warnings: tuple[str, ...] = ()
        coverage = 1.0
        if isinstance(self.preprocessing, ImagePreprocessing):
            require_pages(document, reads="the images of pages")
            logits, encoding_seconds = self._of_images(document, self.preprocessing)
        else:
            encoded, warnings = self._encoded(document, self.preprocessing)
            encoding_seconds = perf_counter() - began
            logits = self._of_pages(encoded, self.preprocessing)
            coverage = windows.coverage(encoded)
            if not any(len(page.ids) for page in encoded):
                coverage = 0.0
                warnings += (NOTHING_READ,)
        return ClassReading(
            raw_scores=softmax((logits / temperature)[None])[0],
            coverage=coverage,
            warnings=warnings,
            encoding_seconds=encoding_seconds,
        )

    def _encoded(
        self, document: Document, settings: Preprocessing
    ) -> tuple[list[EncodedPage], tuple[str, ...]]:
        """Returns the tokens of each page, and what the caller should know."""
        assert self._encoder is not None  # only models of images have none
        notes: tuple[str, ...] = ()
        numbers: tuple[Sequence[int], ...] | None = None
        if self.modality == "layout":
            require_pages(document, reads="words and their boxes")
            document.check()
            document, notes = laid_out(document, settings)
            document, numbers = in_order(document, settings)
            encoded = [self._encoder.encode(page) for page in document.pages]
        elif document.text is not None:
            document.check_text()
            encoded = [self._encoder.encode_text(document.text)]
        else:
            document.check()
            document, _ = in_order(document, settings)
            texts = [" ".join(word.text for word in page.words) for page in document.pages]
            encoded = [self._encoder.encode_text(text) for text in texts]
        losses = windows.losses(encoded, capacity=settings.capacity, numbers=numbers)
        return encoded, (*losses, *notes)

    def _of_pages(self, pages: Sequence[EncodedPage], settings: Preprocessing) -> FloatArray:
        """Returns the mean logits over all windows; of no window at all, those of an empty one."""
        encoder = self._encoder
        assert encoder is not None  # only models of images have none
        plan = windows.cover(pages, capacity=settings.capacity, overlap=settings.overlap)
        plan = plan or [windows.Window(page=0, start=0, stop=0)]
        total = np.zeros(len(self.labels))
        weight = 0

        def inputs(batch: Sequence[windows.Window]) -> Mapping[str, Array]:
            arrays = encoder.batch(
                [(pages[part.page], part.start, part.stop) for part in batch]
            ).to_inputs()
            return {name: arrays[name] for name in INPUTS[self.modality]}

        for batch, logits in window_outputs(self._session, plan, inputs):
            tokens = np.asarray([part.num_tokens + 2 for part in batch])
            total += (logits.astype(np.float64) * tokens[:, None]).sum(axis=0)
            weight += int(tokens.sum())
        return np.asarray(total / weight, dtype=np.float64)

    def _of_images(
        self, document: Document, settings: ImagePreprocessing
    ) -> tuple[FloatArray, float]:
        """Returns the mean logits over all images, and the seconds it took to draw them."""
        total = np.zeros(len(self.labels))
        drawn = 0.0
        source = images.page_pixels(document, settings)
        at_once = 1 if self._session.scaled_by_run else MAX_BATCH_IMAGES
        while True:
            began = perf_counter()
            batch = list(islice(source, at_once))
            drawn += perf_counter() - began
            if not batch:
                return np.asarray(total / len(document.pages), dtype=np.float64), drawn
            for _, logits in in_halves(self._session, batch, _stacked):
                total += logits.astype(np.float64).sum(axis=0)


def _stacked(batch: Sequence[images.Pixels]) -> Mapping[str, Array]:
    return {"pixel_values": np.stack(batch)}


def _require_fit(
    session: Session, labels: Sequence[str], preprocessing: Preprocessing | ImagePreprocessing
) -> None:
    """Raises unless the graph answers with one number for each label, and reads such images."""
    found = list(session.outputs.values())
    if len(found) != 1 or len(found[0]) != 2 or found[0][-1] != len(labels):
        raise ArtifactError(
            f"The graph's outputs have the shapes {found}; {LABELS_FILE} with {len(labels)} labels "
            f"needs one of [batch, {len(labels)}]. Export the artifact again from a model with "
            "these labels."
        )
    if isinstance(preprocessing, ImagePreprocessing):
        size = [3, preprocessing.height, preprocessing.width]
        shape = session.inputs["pixel_values"]
        if len(shape) != 4 or shape[1:] != size:
            raise ArtifactError(
                f"The graph reads images of the shape {shape}; the preprocessing contract makes "
                f"[batch, {', '.join(map(str, size))}]. Export the artifact again."
            )
