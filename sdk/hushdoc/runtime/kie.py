"""Key information extraction: documents in, typed fields out.

A model is built only from an artifact that passed every check, and holds no state between
calls: many threads may share one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from hushdoc import artifact as artifacts
from hushdoc.certificate import Certificate
from hushdoc.document import Document, Page, union
from hushdoc.errors import ArtifactError, HushdocError, InputError, TaskMismatchError
from hushdoc.labels import LabelSet, spans_from_tags
from hushdoc.policy import Policy
from hushdoc.runtime import windows
from hushdoc.runtime.decoding import FloatArray, joined_words, softmax, viterbi
from hushdoc.runtime.encoding import EncodedPage, Encoder, Preprocessing
from hushdoc.runtime.extraction import Extraction, Failure, Field, Timings
from hushdoc.runtime.session import Runtime, Session

TASK = "kie"
INPUTS = ("input_ids", "bbox", "attention_mask")
MAX_BATCH_TOKENS = 2048
"""Most tokens, padding included, that one run of the graph gets: bounds the working memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A range of tokens [start, stop) of one page: what the model sees at once."""

    page: int
    start: int
    stop: int

    @property
    def num_tokens(self) -> int:
        """How many word tokens it holds."""
        return self.stop - self.start


class KIEModel:
    """A verified model that finds the fields of documents.

    Attributes:
        certificate: What its signer certifies about its privacy.
        labels: The fields it can find.
        preprocessing: How words become its inputs.
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
    def load(
        cls,
        path: str | Path,
        *,
        policy: Policy,
        device: str = "cpu",
        runtime: Runtime | None = None,
        low_memory: bool = False,
    ) -> KIEModel:
        """Returns the model of an artifact that the policy accepts.

        Args:
            path: The artifact's folder.
            policy: What the application demands of the certificate.
            device: "cpu" or "cuda"; a device that is not there raises.
            runtime: Threads and memory; all usable cores by default.
            low_memory: Whether the weights are loaded from the file that was checked, rather than
                from a second copy in memory. Needs Linux.

        Raises:
            ArtifactError: The folder is not a sound artifact.
            CertificateError: The certificate is missing, malformed or not signed by a trusted key.
            PolicyViolationError: The policy refuses the certificate.
            TaskMismatchError: The artifact was built for another task.
            DeviceUnavailableError: The device is not there.
        """
        with artifacts.open_artifact(Path(path), policy, low_memory=low_memory) as checked:
            return cls.from_artifact(checked, device=device, runtime=runtime)

    @classmethod
    def from_artifact(
        cls,
        artifact: artifacts.Artifact,
        *,
        device: str = "cpu",
        runtime: Runtime | None = None,
    ) -> KIEModel:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        manifest = artifact.manifest
        if manifest["task"] != TASK:
            raise TaskMismatchError(
                f"The artifact was built for the task {manifest['task']!r}; a KIEModel needs "
                f"'{TASK}'. Load it with hushdoc.load, or use an artifact of that task."
            )
        labels = _labels_from(artifact.read("labels.json"))
        preprocessing = Preprocessing.from_dict(manifest["preprocessing"])
        encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        with artifact.source(manifest["entry"]) as graph:
            session = Session(graph, device=device, runtime=runtime)
        _require_fit(session, manifest, labels)
        return cls(
            certificate=artifact.certificate,
            labels=labels,
            preprocessing=preprocessing,
            encoder=encoder,
            session=session,
        )

    def extract(self, document: Document) -> Extraction:
        """Returns the fields of a document; pages longer than a window are read in several.

        Raises:
            EmptyDocumentError: The document has no page or no word.
            BoxError: A box is NaN, swapped or off its page.
            InputError: A page has no area, or a word is not valid Unicode.
            LimitExceededError: The runtime's memory limit is too small for one window.
        """
        document.check()
        _require_unicode(document)
        began = perf_counter()
        encoded = [self._encoder.encode(page) for page in document.pages]
        parts = [
            Window(page=number, start=start, stop=stop)
            for number, page in enumerate(encoded)
            for start, stop in windows.split(
                page, capacity=self.preprocessing.capacity, overlap=self.preprocessing.overlap
            )
        ]
        ready = perf_counter()
        outputs = self._run(encoded, parts)
        answered = perf_counter()
        fields: list[Field] = []
        for number, (page, tokens) in enumerate(zip(document.pages, encoded, strict=True)):
            scores = self._word_scores(number, tokens, outputs)
            fields += self._fields(page, number, scores)
        return Extraction(
            document_id=document.id,
            fields=tuple(fields),
            coverage=_coverage(encoded),
            warnings=tuple(_warnings(document, encoded, self.preprocessing)),
            timings=Timings(
                encoding_seconds=ready - began,
                model_seconds=answered - ready,
                decoding_seconds=perf_counter() - answered,
            ),
        )

    def extract_many(
        self,
        documents: Iterable[Document],
        *,
        on_error: Literal["raise", "collect"] = "raise",
    ) -> Iterator[Extraction | Failure]:
        """Yields one answer for each document, in their order, as soon as it is known.

        Args:
            documents: Read one at a time, so a generator streams.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
        """
        if on_error not in ("raise", "collect"):
            raise ValueError(f'on_error is {on_error!r}; expected "raise" or "collect".')
        return self._each(documents, collect=on_error == "collect")

    def _each(
        self, documents: Iterable[Document], *, collect: bool
    ) -> Iterator[Extraction | Failure]:
        for document in documents:
            try:
                yield self.extract(document)
            except HushdocError as error:
                if not collect:
                    raise
                yield Failure(document_id=document.id, error=error)

    def _run(
        self, pages: Sequence[EncodedPage], parts: Sequence[Window]
    ) -> dict[Window, FloatArray]:
        """Returns each window's tag probabilities, shape [tokens, tags]."""
        outputs: dict[Window, FloatArray] = {}
        for batch in batches(parts):
            inputs = self._encoder.batch(
                [(pages[part.page], part.start, part.stop) for part in batch]
            )
            logits = self._session.run(inputs.to_inputs())[0]
            if not np.isfinite(logits).all():
                raise ArtifactError(
                    "The model answered with numbers that are not finite. Its weights are damaged "
                    "or overflow on this device; export the artifact again."
                )
            for row, part in enumerate(batch):
                # The first position is the opening special token.
                outputs[part] = softmax(logits[row, 1 : part.num_tokens + 1])
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

    def _fields(self, page: Page, number: int, scores: FloatArray) -> list[Field]:
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
                    word_ids=tuple(range(span.start, span.stop)),
                    normalized=box.normalized(width=page.width, height=page.height),
                )
            )
        return fields


def batches(parts: Iterable[Window]) -> Iterator[list[Window]]:
    """Yields windows of similar length together, so that little of a batch is padding.

    A batch never holds more than MAX_BATCH_TOKENS, unless one window alone does, and never a
    window of less than half its longest.
    """
    batch: list[Window] = []
    for part in sorted(parts, key=lambda part: (-part.num_tokens, part.page, part.start)):
        if batch:
            longest = batch[0].num_tokens + 2
            full = (len(batch) + 1) * longest > MAX_BATCH_TOKENS
            if full or 2 * (part.num_tokens + 2) < longest:
                yield batch
                batch = []
        batch.append(part)
    if batch:
        yield batch


def _coverage(pages: Sequence[EncodedPage]) -> float:
    words = sum(page.num_words for page in pages)
    lost = sum(len(_unread(page)) + len(page.cut_words) for page in pages)
    return (words - lost) / words


def _unread(page: EncodedPage) -> list[int]:
    """Returns the words that have no token at all."""
    return [int(word) for word in np.setdiff1d(np.arange(page.num_words), page.words)]


def _warnings(
    document: Document, pages: Sequence[EncodedPage], preprocessing: Preprocessing
) -> Iterator[str]:
    for number, page in enumerate(pages):
        unread = _unread(page)
        if unread:
            yield (
                f"Page {number}: the tokenizer has no token for {_counted(unread)}; the model did "
                "not read them."
            )
        if page.cut_words:
            yield (
                f"Page {number}: {_counted(page.cut_words)} need more than one whole window of "
                f"{preprocessing.capacity} tokens; the model read only their beginning."
            )
    bare = [
        number
        for number, page in enumerate(document.pages)
        if page.words and all(word.segment is None for word in page.words)
    ]
    if preprocessing.box_level == "segment" and bare:
        yield (
            "The model was trained with the boxes of text lines (segments), and "
            f"page {', '.join(map(str, bare))} has none: each word's own box was used, which costs "
            "accuracy. Pass segments with the words."
        )


def _counted(words: Sequence[int]) -> str:
    shown = ", ".join(map(str, words[:5])) + (", ..." if len(words) > 5 else "")
    return f"{len(words)} word(s) ({shown})"


def _require_unicode(document: Document) -> None:
    for number, page in enumerate(document.pages):
        for index, word in enumerate(page.words):
            try:
                word.text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(
                    f"Word {index} on page {number} of document '{document.id}' is "
                    f"{word.text[:40]!a}, which is not valid Unicode ({error.reason}). Mend the "
                    "text where it was decoded."
                ) from error


def _labels_from(content: bytes) -> LabelSet:
    try:
        fields = json.loads(content)["fields"]
        if not isinstance(fields, list) or not all(
            isinstance(name, str) and name for name in fields
        ):
            raise TypeError("fields must be a list of names")
        labels = LabelSet(fields=tuple(fields))
        if list(labels.fields) != fields:
            raise ValueError("the names must be sorted and each be there once")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f'labels.json can\'t be read: {error}. Expected {{"fields": [names]}}; export the '
            "artifact again."
        ) from error
    return labels


def _require_fit(session: Session, manifest: Mapping[str, Any], labels: LabelSet) -> None:
    """Raises unless graph, manifest and labels tell the same story."""
    for told, real in (
        (manifest["inputs"], session.inputs),
        (manifest["outputs"], session.outputs),
    ):
        shapes = {item["name"]: item["shape"] for item in told if _is_port(item)}
        if shapes != real:
            raise ArtifactError(
                f"The manifest tells of {shapes}, the graph has {real}. Export the artifact again."
            )
    if sorted(session.inputs) != sorted(INPUTS):
        raise ArtifactError(
            f"The graph reads {sorted(session.inputs)}; a model for '{TASK}' reads "
            f"{sorted(INPUTS)}. Export the artifact again."
        )
    found = list(session.outputs.values())
    if len(found) != 1 or len(found[0]) != 3 or found[0][-1] != len(labels.tags):
        raise ArtifactError(
            f"The graph's outputs have the shapes {found}; labels.json with "
            f"{len(labels.fields)} fields needs one of [batch, sequence, {len(labels.tags)}]. "
            "Export the artifact again from a checkpoint whose labels are its model's."
        )


def _is_port(item: Any) -> bool:
    return isinstance(item, dict) and {"name", "shape"} <= item.keys() and type(item["name"]) is str
