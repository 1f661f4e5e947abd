"""ClassificationModel: the class of a document, from its text, its layout or its images.

Long documents are read whole: the logits of all their windows are averaged, weighted by tokens, and
those of all their images alike. A model holds no state between calls: many threads may share one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Literal, Self

import numpy as np

from hushdoc import arguments
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document, required
from hushdoc.errors import ArtifactError
from hushdoc.runtime import images, windows
from hushdoc.runtime.decoding import FloatArray, softmax
from hushdoc.runtime.encoding import EncodedPage, Encoder, Preprocessing, in_order, laid_out
from hushdoc.runtime.extraction import Failure, Timings
from hushdoc.runtime.graph_model import GraphModel, in_halves
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.label_scores import Classification, LabelScore
from hushdoc.runtime.session import Array, Runtime, Session, require_ports, require_task
from hushdoc.runtime.streaming import Item, answers, open_path

TASK = "classification"
LABELS_FILE = "labels.json"
MODALITY_KEY = "modality"
"""Key of the manifest's preprocessing that says what the model reads, a key of INPUTS."""

INPUTS: Mapping[str, tuple[str, ...]] = {
    "text": ("input_ids", "attention_mask"),
    "layout": ("input_ids", "bbox", "attention_mask"),
    "image": ("pixel_values",),
}

MAX_BATCH_IMAGES = 4
"""Images that one run of the graph gets: bounds the working memory."""


class ClassificationModel(GraphModel):
    """A verified model that classifies documents.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The classes it knows, in the order of its outputs.
        modality: What it reads: "text", "layout" (words and boxes) or "image".
        preprocessing: How documents become its inputs.
    """

    def __init__(
        self,
        *,
        certificate: Certificate,
        labels: Sequence[str],
        preprocessing: Preprocessing | ImagePreprocessing,
        encoder: Encoder | None,
        session: Session,
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.labels = tuple(labels)
        self.preprocessing = preprocessing
        self.modality = _modality(session)
        self._encoder = encoder
        self._session = session

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        manifest = artifact.manifest
        require_task(manifest, TASK, "ClassificationModel")
        labels = _labels_from(artifact.read(LABELS_FILE))
        settings = dict(manifest["preprocessing"])
        modality = settings.pop(MODALITY_KEY, None)
        if not isinstance(modality, str) or modality not in INPUTS:
            raise ArtifactError(
                f"The model reads {modality!r}; this version knows {', '.join(INPUTS)}. Install "
                "the version of hushdoc that wrote it."
            )
        encoder: Encoder | None = None
        preprocessing: Preprocessing | ImagePreprocessing
        if modality == "image":
            images.require_pillow()
            preprocessing = ImagePreprocessing.from_dict(settings)
        else:
            preprocessing = Preprocessing.from_dict(settings)
            encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        with artifact.source(manifest["entry"]) as graph:
            session = Session(graph, device=device, runtime=runtime)
        require_ports(session, manifest, INPUTS[modality])
        _require_fit(session, labels, preprocessing)
        return cls(
            certificate=artifact.certificate,
            labels=labels,
            preprocessing=preprocessing,
            encoder=encoder,
            session=session,
        )

    def classify(self, document: Document, *, top_k: int = 1) -> Classification:
        """Returns the most probable classes of a document.

        Args:
            document: For models of text, pages or a plain text; for models of layout, pages with
                words; for models of images, pages with images, which need no words.
            top_k: How many labels are told, best first; all where there are fewer.

        Raises:
            EmptyDocumentError: There is no word, or for a model of images no page.
            BoxError: A box is NaN, swapped or off its page.
            InputError: It is no document, a page or word can't be used, or a page has no image
                that can be read.
            LimitExceededError: The runtime's memory limit is too small for one window or image.
        """
        arguments.whole(top_k, what="top_k")
        began = perf_counter()
        document = required(document)
        if isinstance(self.preprocessing, ImagePreprocessing):
            logits, seconds = self._of_images(document, self.preprocessing)
            ready = began + seconds
            coverage = 1.0
            warnings: tuple[str, ...] = ()
        else:
            encoded, told = self._encoded(document, self.preprocessing)
            ready = perf_counter()
            logits = self._of_pages(encoded, self.preprocessing)
            coverage = windows.coverage(encoded)
            warnings = told
            if not any(len(page.ids) for page in encoded):
                coverage = 0.0
                warnings += ("There is nothing the model can read; its answer says nothing.",)
        answered = perf_counter()
        scores, sure = self._scores(logits)
        return Classification(
            document_id=document.id,
            scores=scores[:top_k],
            below_threshold=not sure,
            coverage=coverage,
            warnings=warnings,
            source=document.source,
            timings=Timings(
                encoding_seconds=ready - began,
                model_seconds=answered - ready,
                decoding_seconds=perf_counter() - answered,
            ),
        )

    def classify_many(
        self,
        documents: Iterable[Item],
        *,
        top_k: int = 1,
        workers: int = 1,
        on_error: Literal["raise", "collect"] = "raise",
        progress: bool = False,
    ) -> Iterator[Classification | Failure]:
        """Yields one answer for each document, in their order, as soon as it is known.

        Args:
            documents: Documents, paths of files, which a model of images opens without reading
                their words, or functions that return a document; taken a few at a time, so a
                generator streams.
            top_k: How many labels are told, best first.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to tell on standard error how far it is.
        """
        arguments.whole(top_k, what="top_k")
        return answers(
            documents,
            partial(self.classify, top_k=top_k),
            workers=workers,
            on_error=on_error,
            progress=progress,
            opened=images.with_image if self.modality == "image" else open_path,
        )

    def _encoded(
        self, document: Document, settings: Preprocessing
    ) -> tuple[list[EncodedPage], tuple[str, ...]]:
        """Returns the tokens of each page, and what the caller should know."""
        assert self._encoder is not None  # only models of images have none
        told: tuple[str, ...] = ()
        numbers: tuple[Sequence[int], ...] | None = None
        if self.modality == "layout":
            document.check()
            document, told = laid_out(document, settings)
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
        return encoded, (*losses, *told)

    def _of_pages(self, pages: Sequence[EncodedPage], settings: Preprocessing) -> FloatArray:
        """Returns the mean logits over all windows; of no window at all, those of an empty one."""
        encoder = self._encoder
        assert encoder is not None  # only models of images have none
        plan = windows.cover(pages, capacity=settings.capacity, overlap=settings.overlap)
        plan = plan or [windows.Window(page=0, start=0, stop=0)]
        total = np.zeros(len(self.labels))
        weight = 0

        def inputs(batch: Sequence[windows.Window]) -> Mapping[str, Array]:
            told = encoder.batch(
                [(pages[part.page], part.start, part.stop) for part in batch]
            ).to_inputs()
            return {name: told[name] for name in INPUTS[self.modality]}

        for batch, logits in self._outputs(plan, inputs):
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

    def _scores(self, logits: FloatArray) -> tuple[tuple[LabelScore, ...], bool]:
        """Returns all labels, best first, and whether the best reaches the threshold."""
        scoring = self.preprocessing.scores
        raw = softmax((logits / (1.0 if scoring is None else scoring.temperature))[None])[0]
        values = [float(value) if scoring is None else scoring.calibrate(value) for value in raw]
        # The curve never falls, so the raw order is the order; it also decides ties.
        order = np.argsort(-raw, kind="stable")
        scores = tuple(LabelScore(label=self.labels[index], score=values[index]) for index in order)
        return scores, scoring is None or scoring.accepts(scores[0].score)


def _stacked(batch: Sequence[images.Pixels]) -> Mapping[str, Array]:
    return {"pixel_values": np.stack(batch)}


def _modality(session: Session) -> str:
    return next(name for name, ports in INPUTS.items() if sorted(ports) == sorted(session.inputs))


def _labels_from(content: bytes) -> tuple[str, ...]:
    try:
        labels = json.loads(content)["labels"]
        if not isinstance(labels, list) or not all(
            isinstance(name, str) and name for name in labels
        ):
            raise TypeError("labels must be a list of names")
        if len(set(labels)) != len(labels) or not labels:
            raise ValueError("there must be a label, and each once")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f'{LABELS_FILE} can\'t be read: {error}. Expected {{"labels": [names]}}; export the '
            "artifact again."
        ) from error
    return tuple(labels)


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
        told = session.inputs["pixel_values"]
        if len(told) != 4 or told[1:] != size:
            raise ArtifactError(
                f"The graph reads images of the shape {told}; the preprocessing contract makes "
                f"[batch, {', '.join(map(str, size))}]. Export the artifact again."
            )
