"""HashedCRFModel: clauses and entities from text, by a table of hashed features and Viterbi.

A text is cut into sentences and tokens by rules, its features are hashed, the rows of the table
that they name are added up for each item, and the best sequence of labels is found exactly. All of
it is numpy; the table is the only thing that was learned.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np

from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document
from hushdoc.hashing import segmentation
from hushdoc.labels import OUTSIDE, LabelSet, spans_from_tags
from hushdoc.runtime.encoding import texts_of
from hushdoc.runtime.extraction import (
    Extraction,
    Field,
    StageClock,
    judged,
    of_page,
    of_text,
    word_ends,
)
from hushdoc.runtime.hashed.chains import (
    Flags,
    Offsets,
    Scores,
    Tags,
    probabilities,
    span_probabilities,
    viterbi,
)
from hushdoc.runtime.hashed.sealed_table import Places, ScoredBlock, SealedTable
from hushdoc.runtime.model import FieldModel, require_class
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime

TASK = "kie"

Found = tuple[str, int, int, float]
"""Label, first character, one past the last, score."""


class HashedCRFModel(FieldModel):
    """A verified model that finds clauses and entities in text; it holds no state between calls.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The fields it can find.
        tags: The labels of items in the order of the table's columns.
        scheme: How text becomes rows of the table.
        scoring: How scores are calibrated and which fields are below the threshold; None for raw
            scores.
    """

    def __init__(self, *, certificate: Certificate, sealed: SealedTable) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.tags = sealed.tags
        self.scheme = sealed.scheme
        self.scoring = sealed.scoring
        self.labels = label_set(self.tags, self.scheme.level)
        self._sealed = sealed
        self._transitions = sealed.table.transitions
        self._inside: Flags = np.array([tag != OUTSIDE for tag in self.tags])
        self._joins = _joins(self.tags, self.scheme.level)

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        del runtime  # numpy alone adds up rows
        require_class(artifact.certificate.model, "HashedCRFModel")
        sealed = SealedTable.from_artifact(artifact, device=device, labels_key="tags")
        return cls(certificate=artifact.certificate, sealed=sealed)

    def scored_by(self, scoring: Scoring | None) -> HashedCRFModel:
        """Returns the same model with another calibration, as one is measured before sealing.

        Without knots, a score is the chain's own probability of a field.
        """
        model = copy.copy(self)
        model.scoring = scoring
        return model

    def _extent(self) -> str:
        return f"{len(self.labels.fields)} fields"

    def _extract(self, document: Document) -> Extraction:
        """Returns the fields of a plain text, or of each page's words one after the other.

        Neighbouring sentences of one label are one field. A field's score is the mean of
        `probabilities` over its items. Where the artifact declares a calibration, the score is its
        value at `span_probabilities`, and fields below the threshold stand in `below_threshold`.
        """
        clock = StageClock()
        fields: list[Field] = []
        for number, text in enumerate(texts_of(document)):
            found = self._found(text, clock)
            if document.text is not None:
                fields += [of_text(text, *item) for item in found]
            else:
                page = document.pages[number]
                ends = word_ends(page)
                fields += [of_page(page, number, ends, *item) for item in found]
        sure, unsure = judged(fields, self.scoring)
        return Extraction(
            document_id=document.id,
            fields=sure,
            below_threshold=unsure,
            coverage=1.0,
            warnings=(),
            source=document.source,
            calibrated_on=None if self.scoring is None else self.scoring.fitted_on,
            timings=clock.timings(),
        )

    def _found(self, text: str, clock: StageClock) -> list[Found]:
        """Returns the fields of a text."""
        sentences = segmentation.sentence_places(text)
        found: list[Found] = []
        # The sentences of a text are one sequence, the tokens of each sentence another; so only
        # tokens can be labelled before the whole text was read.
        pending: list[Scores] = []
        for block in self._sealed.scored(text, sentences, clock):
            if self.scheme.level == "token":
                found += self._tokens_found(text, block)
                clock.count("decoding")
            else:
                pending.append(block.scores)
        if pending:
            found = self._sentences_found(sentences, np.concatenate(pending))
            clock.count("decoding")
        return found

    def _sentences_found(self, places: Places, scores: Scores) -> list[Found]:
        """Returns the runs of sentences that have one label."""
        offsets = np.array([0, len(scores)])
        tags = viterbi(scores, offsets, self._transitions)
        edges = np.flatnonzero(np.diff(tags, prepend=-1, append=-1))
        spans = np.stack([edges[:-1], edges[1:]], axis=1)
        spans = spans[self._inside[tags[spans[:, 0]]]]
        certain = self._certainties(scores, offsets, tags, spans)
        return [
            (self.tags[tags[first]], int(places[first, 0]), int(places[stop - 1, 1]), score)
            for (first, stop), score in zip(spans.tolist(), certain, strict=True)
        ]

    def _tokens_found(self, text: str, block: ScoredBlock) -> list[Found]:
        """Returns the fields that the tags of some sentences' tokens mark."""
        offsets = np.concatenate([[0], np.cumsum(block.lengths)])
        tags = viterbi(block.scores, offsets, self._transitions)
        counts = np.concatenate([[0], np.cumsum(self._inside[tags])])[offsets]
        found: list[tuple[str, int, int]] = []
        spans: list[tuple[int, int]] = []
        for number in np.flatnonzero(np.diff(counts)).tolist():
            first, stop = offsets[number : number + 2].tolist()
            places = segmentation.tokens(text, *block.places[number].tolist())
            for span in spans_from_tags([self.tags[tag] for tag in tags[first:stop]]):
                found.append((span.label, places[span.start][0], places[span.stop - 1][1]))
                spans.append((first + span.start, first + span.stop))
        shaped = np.array(spans, dtype=np.int64).reshape(-1, 2)
        certain = self._certainties(block.scores, offsets, tags, shaped)
        return [(*item, score) for item, score in zip(found, certain, strict=True)]

    def _certainties(
        self, scores: Scores, offsets: Offsets, tags: Tags, spans: Tags
    ) -> list[float]:
        """Returns the score of the field at each span, not yet on the calibration's curve."""
        transitions = self._transitions
        if not len(spans):
            return []
        if self.scoring is not None:
            heat = self.scoring.temperature
            found = span_probabilities(
                scores / heat, offsets, transitions / heat, tags, spans, self._joins
            )
            return [float(score) for score in found]
        inside = np.flatnonzero(self._inside[tags])
        certain = np.zeros(len(tags) + 1)  # a span may end where the items do
        certain[inside] = probabilities(scores, offsets, transitions, tags, inside)
        sums = np.add.reduceat(certain, spans.ravel())[::2]
        return [float(score) for score in sums / (spans[:, 1] - spans[:, 0])]


def _joins(tags: Sequence[str], level: str) -> Flags:
    """Returns whether an item with the second label goes on with the field of one with the first.

    Example:
        >>> _joins(["O", "B-x", "I-x"], "token").astype(int).tolist()
        [[0, 0, 0], [0, 0, 1], [0, 0, 1]]
    """
    if level == "sentence":
        return np.eye(len(tags), dtype=bool)
    return np.array(
        [[after.startswith("I-") and after[2:] == tag[2:] for after in tags] for tag in tags]
    )


def label_set(tags: Sequence[str], level: str) -> LabelSet:
    """Returns the fields that items' labels mark: BIO tags of tokens, names of sentences."""
    names = [tag[2:] if level == "token" else tag for tag in tags if tag != OUTSIDE]
    return LabelSet(fields=tuple(names))
