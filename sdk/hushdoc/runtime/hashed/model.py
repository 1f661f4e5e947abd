"""HashedCRFModel: clauses and entities from text, by a table of hashed features and Viterbi.

A text is cut into sentences and tokens by rules, its features are hashed, the rows of the table
that they name are added up for each item, and the best sequence of labels is found exactly. All of
it is numpy; the table is the only thing that was learned.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Literal

import numpy as np

from hushdoc import arguments, hashing
from hushdoc.artifact import artifact as artifacts
from hushdoc.artifact.manifest import TABLE_KEY
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document, required
from hushdoc.errors import ArtifactError, TaskMismatchError
from hushdoc.hashing import Clusters, FeatureScheme, segmentation
from hushdoc.labels import OUTSIDE, LabelSet, spans_from_tags
from hushdoc.policy.policy import Policy
from hushdoc.runtime.extraction import Extraction, Failure, Field, Found, Timings, of_page, of_text
from hushdoc.runtime.hashed.chains import (
    Flags,
    Offsets,
    Scores,
    Tags,
    probabilities,
    span_probabilities,
    viterbi,
)
from hushdoc.runtime.hashed.class_scoring import ClassConfidence, confidence, is_classifier
from hushdoc.runtime.hashed.table import (
    HashedTable,
    item_scores,
    num_features,
    read_clusters,
    read_table,
)
from hushdoc.runtime.scoring import Scoring, judged
from hushdoc.runtime.streaming import Item, answers

TASK = "kie"
FORMAT = "safetensors"
LABELS_FILE = "labels.json"
CLUSTERS_FILE = "clusters.safetensors"

BLOCK_CHARACTERS = 1 << 18
"""Text whose tokens are held at once, so that memory does not grow with them."""


class HashedCRFModel:
    """A verified model that finds clauses and entities in text; it holds no state between calls.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The fields it can find.
        tags: The labels of items in the order of the table's columns.
        scheme: How text becomes rows of the table.
        scoring: How scores are calibrated and which fields are set apart; None for raw scores.
        class_confidence: How kinds of whole texts are scored; None where the artifact does not say.
    """

    def __init__(
        self,
        *,
        certificate: Certificate,
        tags: Sequence[str],
        scheme: FeatureScheme,
        table: HashedTable,
        clusters: Clusters | None = None,
        scoring: Scoring | None = None,
        class_confidence: ClassConfidence | None = None,
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.tags = tuple(tags)
        self.labels = label_set(self.tags, scheme.level)
        self.scheme = scheme
        self._table = table
        self._clusters = clusters
        self.scoring = scoring
        self.class_confidence = class_confidence
        self._inside: Flags = np.array([tag != OUTSIDE for tag in self.tags])
        self._joins = _joins(self.tags, scheme.level)

    @classmethod
    def load(cls, path: str | Path, *, policy: Policy, low_memory: bool = False) -> HashedCRFModel:
        """Returns the model of an artifact that the policy accepts.

        Args:
            path: The artifact's folder.
            policy: What the application demands of the certificate.
            low_memory: Whether the table is mapped from the file that was checked, rather than
                held in memory. Needs Linux. The file may then be replaced, but not overwritten in
                place: that would change answers, or end the process.

        Raises:
            ArtifactError: The folder is not a sound artifact.
            CertificateError: The certificate is missing, malformed or not signed by a trusted key.
            PolicyViolationError: The policy refuses it.
            TaskMismatchError: The artifact holds another kind of model.
        """
        folder = arguments.place(path, what="The artifact's folder")
        with artifacts.open_artifact(folder, policy, low_memory=low_memory) as checked:
            return cls.from_artifact(checked)

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> HashedCRFModel:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        model = artifact.certificate.model
        if (model.task, model.format) != (TASK, FORMAT):
            raise TaskMismatchError(
                f"The artifact holds a model of the format '{model.format}' for the task "
                f"'{model.task}'; a HashedCRFModel needs '{FORMAT}' and '{TASK}'. Load it with "
                "hushdoc.load."
            )
        settings = artifact.manifest["preprocessing"]
        scheme = FeatureScheme.from_dict(settings.get("features") or {})
        if settings.get("segmentation") != segmentation.VERSION:
            raise ArtifactError(
                f"The artifact was made with rules {settings.get('segmentation')!r} for sentences "
                f"and tokens; this version has {segmentation.VERSION}. Export it again.",
                code="BAD_MANIFEST",
            )
        tags = _tags_from(artifact.read(LABELS_FILE), scheme.level)
        stated = settings[TABLE_KEY]
        table = read_table(artifact.view(model.entry), stated["tensor"], stated.get("reference"))
        if (len(table.weights), len(table.transitions)) != (scheme.rows, len(tags)):
            raise ArtifactError(
                f"The table has {len(table.weights)} rows for {len(table.transitions)} labels, the "
                f"features need {scheme.rows} rows and {LABELS_FILE} has {len(tags)} labels. "
                "Export it again."
            )
        view = artifact.view
        made = cls(
            certificate=artifact.certificate,
            tags=tags,
            scheme=scheme,
            table=table,
            clusters=read_clusters(view(CLUSTERS_FILE), scheme) if scheme.clusters else None,
            scoring=Scoring.from_dict(settings["scores"]) if "scores" in settings else None,
            class_confidence=ClassConfidence.from_manifest(settings),
        )
        if made.class_confidence is not None and not made.is_classifier:
            raise ArtifactError(
                "The manifest says how kinds of whole texts are scored, and this table tells none: "
                "its labels may change within a text. Export the artifact again.",
                code="BAD_MANIFEST",
            )
        return made

    @property
    def is_classifier(self) -> bool:
        """Whether it finds which kind a whole text is of, rather than what stands where in it."""
        return is_classifier(self.tags, self.scheme.level, self._table.transitions)

    def scored_by(self, scoring: Scoring) -> HashedCRFModel:
        """Returns the same model with another calibration: how one is measured before it is sealed.

        Args:
            scoring: Without knots, a score is the chain's own probability of a field, or, of every
                table of kinds, how clear the kind is.
        """
        made = copy.copy(self)
        made.scoring = scoring
        if self.is_classifier:
            made.class_confidence = self.class_confidence or ClassConfidence.of(self._table)
        return made

    def extract(self, document: Document) -> Extraction:
        """Returns the fields of a plain text, or of each page's words one after the other.

        Neighbouring sentences of one label are one field. A field's score is the mean of
        `probabilities` over its items. Where the artifact states a calibration, it is what that
        makes of `span_probabilities`, and fields below the threshold stand in `below_threshold`.
        Where it states how kinds of texts are scored, `confidence` takes the place of both.

        Raises:
            EmptyDocumentError: There is no text, or nothing but blanks.
            BoxError: A box is NaN, swapped or off its page.
            InputError: A page has no area.
        """
        clock = _Clock()
        fields: list[Field] = []
        document = required(document)
        if document.text is not None:
            document.check_text()
            found = self._found(document.text, clock)
            fields += [of_text(document.text, *item) for item in found]
        else:
            document.check()
            for number, page in enumerate(document.pages):
                text = " ".join(word.text for word in page.words)
                found = self._found(text, clock)
                fields += [of_page(page, number, *item) for item in found]
        sure, unsure = judged(fields, self.scoring)
        return Extraction(
            document_id=document.id,
            fields=sure,
            below_threshold=unsure,
            coverage=1.0,
            warnings=(),
            source=document.source,
            timings=clock.timings(),
        )

    def extract_many(
        self,
        documents: Iterable[Item],
        *,
        workers: int = 1,
        on_error: Literal["raise", "collect"] = "raise",
        progress: bool = False,
    ) -> Iterator[Extraction | Failure]:
        """Yields one answer for each document, in their order, as soon as it is known.

        Args:
            documents: Documents, paths of files, or functions that return a document, such as
                `partial(open_document, path, password=...)`; taken a few at a time, so a generator
                streams.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to tell on standard error how far it is.
        """
        return answers(
            documents, self.extract, workers=workers, on_error=on_error, progress=progress
        )

    def _found(self, text: str, clock: _Clock) -> list[Found]:
        """Returns the fields of a text."""
        sentences = segmentation.sentences(text)
        # Sentences are one sequence, the tokens of each sentence another; so only the tokens'
        # labels can be had before the whole text was read.
        pending: list[Scores] = []
        found: list[Found] = []
        size = 0
        for block in _blocks(sentences):
            words = [segmentation.words(text, start, stop) for start, stop in block]
            hashed = hashing.lookups if self.scheme.level == "sentence" else hashing.features
            rows = hashed(words, self.scheme, self._clusters)
            if self.class_confidence is not None:
                size += num_features(rows)
            clock.encoded()
            pending.append(item_scores(rows, self._table))
            clock.scored()
            if self.scheme.level == "token":
                found += self._tokens_found(text, block, words, pending.pop())
                clock.decoded()
        if pending:
            found = self._sentences_found(sentences, np.concatenate(pending), size)
            clock.decoded()
        return found

    def _sentences_found(self, places: Sequence[_Place], scores: Scores, size: int) -> list[Found]:
        """Returns the runs of sentences that have one label; all of them have `size` features."""
        offsets = np.array([0, len(scores)])
        tags = viterbi(scores, offsets, self._table.transitions)
        edges = np.flatnonzero(np.diff(tags, prepend=-1, append=-1))
        spans = np.stack([edges[:-1], edges[1:]], axis=1)
        spans = spans[self._inside[tags[spans[:, 0]]]]
        if self.class_confidence is None:
            certain = self._certainties(scores, offsets, tags, spans)
        else:
            heat = 1.0 if self.scoring is None else self.scoring.temperature
            unit, sums = heat * self.class_confidence.unit(size), scores.sum(axis=0)
            certain = [confidence(sums, kind, unit=unit) for kind in tags[spans[:, 0]].tolist()]
        return [
            (self.tags[tags[first]], places[first][0], places[stop - 1][1], score)
            for (first, stop), score in zip(spans.tolist(), certain, strict=True)
        ]

    def _tokens_found(
        self, text: str, block: Sequence[_Place], words: Sequence[list[str]], scores: Scores
    ) -> list[Found]:
        """Returns the fields that the tags of some sentences' tokens spell."""
        offsets = np.cumsum([0, *map(len, words)])
        tags = viterbi(scores, offsets, self._table.transitions)
        counts = np.concatenate([[0], np.cumsum(self._inside[tags])])[offsets]
        found: list[tuple[str, int, int]] = []
        spans: list[_Place] = []
        for number in np.flatnonzero(np.diff(counts)).tolist():
            first, stop = offsets[number : number + 2].tolist()
            places = segmentation.tokens(text, *block[number])
            for span in spans_from_tags([self.tags[tag] for tag in tags[first:stop]]):
                found.append((span.label, places[span.start][0], places[span.stop - 1][1]))
                spans.append((first + span.start, first + span.stop))
        shaped = np.array(spans, dtype=np.int64).reshape(-1, 2)
        certain = self._certainties(scores, offsets, tags, shaped)
        return [(*item, score) for item, score in zip(found, certain, strict=True)]

    def _certainties(
        self, scores: Scores, offsets: Offsets, tags: Tags, spans: Tags
    ) -> list[float]:
        """Returns the score of the field at each span, not yet on the calibration's curve."""
        transitions = self._table.transitions
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
    """Returns the fields that the labels of items spell: BIO tags of tokens, names of sentences."""
    names = [tag[2:] if level == "token" else tag for tag in tags if tag != OUTSIDE]
    return LabelSet(fields=tuple(names))


_Place = tuple[int, int]


class _Clock:
    """Where the time of one call goes."""

    def __init__(self) -> None:
        self._seconds = [0.0, 0.0, 0.0]
        self._last = perf_counter()

    def _spent(self, part: int) -> None:
        now = perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def encoded(self) -> None:
        self._spent(0)

    def scored(self) -> None:
        self._spent(1)

    def decoded(self) -> None:
        self._spent(2)

    def timings(self) -> Timings:
        self.decoded()
        encoding, model, decoding = self._seconds
        return Timings(encoding_seconds=encoding, model_seconds=model, decoding_seconds=decoding)


def _blocks(sentences: Sequence[_Place]) -> Iterator[Sequence[_Place]]:
    """Yields neighbouring sentences that are about as long as a block."""
    first = 0
    for number, (_, stop) in enumerate(sentences):
        if stop - sentences[first][0] >= BLOCK_CHARACTERS or number == len(sentences) - 1:
            yield sentences[first : number + 1]
            first = number + 1


def _tags_from(content: bytes, level: str) -> tuple[str, ...]:
    try:
        tags = json.loads(content)["tags"]
        if not isinstance(tags, list) or not all(isinstance(tag, str) and tag for tag in tags):
            raise TypeError("tags must be a list of names")
        if len(set(tags)) != len(tags) or not tags:
            raise ValueError("there must be a tag, and each once")
        if level == "token" and not all(
            tag == OUTSIDE or tag.startswith(("B-", "I-")) for tag in tags
        ):
            raise ValueError("tags of tokens are O, B-name or I-name")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f'{LABELS_FILE} can\'t be read: {error}. Expected {{"tags": [names]}}; export the '
            "artifact again."
        ) from error
    return tuple(tags)
