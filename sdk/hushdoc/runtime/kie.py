"""Key information extraction: documents in, typed fields out.

A model is built only from an artifact that passed every check, and holds no state between
calls: many threads may share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document
from hushdoc.document.limits import check_word
from hushdoc.labels import LabelSet, spans_from_tags
from hushdoc.runtime import images, windows
from hushdoc.runtime.decoding import FloatArray, joined_words, softmax, viterbi
from hushdoc.runtime.encoding import PIXELS, EncodedPage, Encoder, Preprocessing, in_order, laid_out
from hushdoc.runtime.extraction import Extraction, Field, StageClock, judged, of_text, of_words
from hushdoc.runtime.graph_batches import open_graph, output_width, window_outputs
from hushdoc.runtime.model import (
    LABELS_FILE,
    FieldModel,
    read_names,
    require_class,
    require_pages,
    unreadable_names,
)
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime, Session
from hushdoc.runtime.windows import Window
from hushdoc.viewing.rendition import require_pillow

TASK = "kie"
INPUTS = ("input_ids", "bbox", "attention_mask")
"""What a model reads: without `bbox` one of words alone, with `pixel_values` too one of images."""

PAGES_AT_ONCE = 8
"""Pages whose images, as the model reads them, are in memory together."""


class KIEModel(FieldModel):
    """A verified model that finds the fields of documents.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The fields it can find.
        preprocessing: How words, and pages where it reads their images, become its inputs.
    """

    def __init__(
        self, *, certificate: Certificate, labels: LabelSet, encoder: Encoder, session: Session
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.labels = labels
        self.preprocessing = encoder.preprocessing
        self.device = session.device
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
        image = preprocessing.image
        if image is not None:
            require_pillow()
        encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        inputs = [name for name in INPUTS if name != "bbox" or preprocessing.box_level != "none"]
        inputs += [] if image is None else [PIXELS]
        session = open_graph(artifact, inputs, device=device, runtime=runtime, image=image)
        what = f"{LABELS_FILE} with {len(labels.fields)} fields"
        output_width(session, ("batch", "sequence"), width=len(labels.tags), what=what)
        certificate = artifact.certificate
        return cls(certificate=certificate, labels=labels, encoder=encoder, session=session)

    @property
    def scoring(self) -> Scoring | None:
        """How scores are calibrated, and their threshold; None for raw scores."""
        return self.preprocessing.scores

    def _extent(self) -> str:
        return f"{len(self.labels.fields)} fields"

    def _extract(self, document: Document) -> Extraction:
        if document.text is not None and self.preprocessing.box_level == "none":
            return self._extract_text(document, document.text)
        require_pages(document, reads="words and their boxes")
        document.check()
        clock = StageClock()
        document, notes = laid_out(document, self.preprocessing)
        document, numbers = in_order(document, self.preprocessing)
        encoded = [self._encoder.encode(page) for page in document.pages]
        outputs = self._outputs(document, encoded, clock)
        fields: list[Field] = []
        for number, (page, tokens) in enumerate(zip(document.pages, encoded, strict=True)):
            scores = self._word_scores(number, tokens, outputs)
            by_segment = self.preprocessing.box_level == "segment"
            joined = joined_words(page) if by_segment else None
            fields += [
                of_words(page, number, label, range(*words), score, ids=numbers[number])
                for label, words, score in self._found(scores, joined)
            ]
        return self._answer(document, fields, encoded, clock, numbers=numbers, notes=notes)

    def _extract_text(self, document: Document, text: str) -> Extraction:
        """Returns the fields of a plain text, whose words are what whitespace parts."""
        document.check_text()
        clock = StageClock()
        places = [match.span() for match in re.finditer(r"\S+", text)]
        words = [
            check_word(text[start:stop], where=f"word {index} of '{document.id}'")
            for index, (start, stop) in enumerate(places)
        ]
        encoded = self._encoder.encode_words(words)
        outputs = self._outputs(document, [encoded], clock)
        scores = self._word_scores(0, encoded, outputs)
        fields = [
            of_text(text, label, places[start][0], places[stop - 1][1], score)
            for label, (start, stop), score in self._found(scores, None)
        ]
        return self._answer(document, fields, [encoded], clock, numbers=[range(len(words))])

    def _answer(
        self,
        document: Document,
        fields: list[Field],
        encoded: Sequence[EncodedPage],
        clock: StageClock,
        *,
        numbers: Sequence[Sequence[int]],
        notes: Sequence[str] = (),
    ) -> Extraction:
        sure, unsure = judged(fields, self.preprocessing.scores)
        capacity = self.preprocessing.capacity
        return Extraction(
            document_id=document.id,
            fields=sure,
            below_threshold=unsure,
            coverage=windows.coverage(encoded),
            warnings=(*windows.losses(encoded, capacity=capacity, numbers=numbers), *notes),
            source=document.source,
            calibrated_on=None
            if self.preprocessing.scores is None
            else self.preprocessing.scores.fitted_on,
            timings=clock.timings(),
        )

    def _outputs(
        self,
        document: Document,
        pages: Sequence[EncodedPage],
        clock: StageClock,
    ) -> dict[Window, FloatArray]:
        """Returns each window's tag probabilities; drawing images counts as encoding."""
        settings = self.preprocessing
        parts = windows.cover(pages, capacity=settings.capacity, overlap=settings.overlap)
        image = settings.image
        clock.count("encoding")
        if image is None:
            found = self._run(pages, parts)
            clock.count("model")
            return found
        from hushdoc.reading.drawing import kept_open

        outputs: dict[Window, FloatArray] = {}
        with kept_open() as draw:
            for group in windows.by_pages(parts, at_once=PAGES_AT_ONCE):
                drawn = {
                    number: images.pixels_of_page(document, number, image, draw)
                    for number in {part.page: None for part in group}
                }
                clock.count("encoding")
                outputs |= self._run(pages, group, drawn)
                clock.count("model")
        return outputs

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
        for batch, logits in window_outputs(self._session, self._encoder, pages, parts, drawn):
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

    def _found(
        self, scores: FloatArray, joined: npt.NDArray[np.bool_] | None
    ) -> Iterator[tuple[str, tuple[int, int], float]]:
        """Yields label, first word and one past the last, and score of each field of a page."""
        path = viterbi(scores, joined)
        tags = self.labels.tags
        chosen = scores[np.arange(len(path)), path]
        for span in spans_from_tags([tags[tag] for tag in path]):
            part = chosen[span.start : span.stop]
            score = float(part[~np.isnan(part)].mean())  # np.nanmean takes several times as long
            yield span.label, (span.start, span.stop), score


def _labels_of(artifact: Artifact) -> LabelSet:
    names = read_names(artifact, "fields")
    try:
        labels = LabelSet(fields=names)
        if labels.fields != names:
            raise ValueError("the names must be sorted")
    except ValueError as error:
        raise unreadable_names(error, "fields") from error
    return labels
