"""ClassificationModel: the class of a document, from its text, its layout or its images.

What reads the document is a graph or a table of hashed features; the answer is the same type.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal, Self

import numpy as np

from hushdoc import arguments
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document
from hushdoc.runtime import images
from hushdoc.runtime.asynchronous import in_thread
from hushdoc.runtime.extraction import Failure, StageClock
from hushdoc.runtime.graph_classifier import GraphClassifier
from hushdoc.runtime.hashed.classifier import TableClassifier
from hushdoc.runtime.label_scores import Classification, LabelScore
from hushdoc.runtime.model import Model, require_class
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime
from hushdoc.runtime.streaming import Item, answers, document_of, open_path, opener

FORMAT_OF_TABLES = "safetensors"


class ClassificationModel(Model):
    """A verified model that classifies documents.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The classes it knows, in the order of its outputs.
        modality: What it reads: "text", "layout" (words and boxes) or "image".
        scoring: How scores are calibrated and when an answer is below the threshold; None for raw
            scores.
    """

    def __init__(
        self, *, certificate: Certificate, classifier: GraphClassifier | TableClassifier
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.labels = classifier.labels
        self.modality = classifier.modality
        self.scoring = classifier.scoring
        self.device = classifier.device
        self._classifier = classifier

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        identity = artifact.certificate.model
        require_class(identity, "ClassificationModel")
        reader = TableClassifier if identity.format == FORMAT_OF_TABLES else GraphClassifier
        classifier = reader.from_artifact(artifact, device=device, runtime=runtime)
        return cls(certificate=artifact.certificate, classifier=classifier)

    def scored_by(self, scoring: Scoring | None) -> ClassificationModel:
        """Returns the same model with another calibration, as one is measured before sealing."""
        model = copy.copy(self)
        model.scoring = scoring
        return model

    def _extent(self) -> str:
        return f"{len(self.labels)} classes"

    def classify(self, document: Item, *, top_k: int = 1) -> Classification:
        """Returns the most probable classes of a document.

        Args:
            document: A document, the path of a file, which a model of images opens without reading
                its words, or a function that returns a document. For models of text, pages or a
                plain text; for models of layout, pages with words; for models of images, pages with
                images, which need no words.
            top_k: How many labels are returned, best first; all where there are fewer.

        Raises:
            EmptyDocumentError: There is no word, or for a model of images no page.
            BoxError: A box is NaN, swapped or off its page.
            InputError: It is no document, a page or word can't be used, or a page has no image
                that can be read. A path raises what `hushdoc.open_document` does.
            TaskMismatchError: A plain text was given to a model of layout or images.
            LimitExceededError: The runtime's memory limit is too small for one window or image.
            ModelClosedError: The model was closed.
        """
        arguments.integer(top_k, what="top_k")
        used = self._in_use()
        return used._classify(document_of(document, used._opener()), top_k)

    async def aclassify(self, document: Item, *, top_k: int = 1) -> Classification:
        """Returns what `classify` does, while the event loop goes on, as `KIEModel.aextract` does.

        Args:
            document: As for `classify`.
            top_k: How many labels are returned, best first; all where there are fewer.

        Raises:
            HushdocError: As `classify` raises it.
        """
        return await in_thread(partial(self._in_use().classify, document, top_k=top_k))

    def _opener(self) -> Callable[[str | os.PathLike[str]], Document]:
        """Returns what opens the files this model is asked about."""
        return images.with_image if self.modality == "image" else open_path

    def _classify(self, document: Document, top_k: int) -> Classification:
        clock = StageClock()
        scoring = self.scoring
        temperature = 1.0 if scoring is None else scoring.temperature
        reading = self._classifier.read(document, temperature=temperature, clock=clock)
        clock.count("model")
        # The curve never falls, so the raw order is the order; it also decides ties.
        order = np.argsort(-reading.raw_scores, kind="stable")
        raw = [float(reading.raw_scores[index]) for index in order]
        values = raw if scoring is None else scoring.ranked(raw, left=sum(raw[1:]))
        return Classification(
            document_id=document.id,
            scores=tuple(
                LabelScore(label=self.labels[index], score=value)
                for index, value in zip(order[:top_k], values[:top_k], strict=True)
            ),
            below_threshold=scoring is not None and not scoring.accepts(values[0]),
            coverage=reading.coverage,
            warnings=reading.warnings,
            source=document.source,
            calibrated_on=None if scoring is None else scoring.fitted_on,
            timings=clock.timings(),
        )

    def classify_many(
        self,
        documents: Iterable[Item],
        *,
        top_k: int = 1,
        workers: int = 1,
        on_error: Literal["raise", "collect"] = "raise",
        progress: bool = False,
        reader: str = "here",
    ) -> Iterator[Classification | Failure]:
        """Yields one answer for each document, in their order, as soon as it is known.

        Args:
            documents: Documents, paths of files, which a model of images opens without reading
                their words, or functions that return a document; taken a few at a time, so a
                generator streams.
            top_k: How many labels are returned, best first.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to report progress on standard error.
            reader: Where files given by their paths are read: "here", or in a "process" of their
                own, one for each worker, within the time and memory of `ReadingLimits`.
        """
        arguments.integer(top_k, what="top_k")
        used = self._in_use()
        return answers(
            documents,
            partial(used.classify, top_k=top_k),
            workers=workers,
            on_error=on_error,
            progress=progress,
            opened=opener(reader, used._opener()),
        )
