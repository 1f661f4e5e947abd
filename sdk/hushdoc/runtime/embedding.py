"""Embeddings: texts, pages, fields and documents as vectors that can be compared.

A text longer than a window is read in several, and its vector is the mean over the tokens of all of
them: nothing is cut off silently. Vectors have length one, so that their dot product is the
cosine of the angle between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from hushdoc import arguments
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, InputError
from hushdoc.runtime import windows
from hushdoc.runtime.asynchronous import in_thread
from hushdoc.runtime.encoding import EncodedPage, Encoder, Preprocessing, texts_of
from hushdoc.runtime.extraction import Failure, Field, StageClock
from hushdoc.runtime.graph_batches import open_graph, output_width, window_outputs
from hushdoc.runtime.model import Model, require_class
from hushdoc.runtime.session import Array, Runtime, Session
from hushdoc.runtime.streaming import Item, answers, document_of, opener
from hushdoc.runtime.vectors import Embedding, Vectors

TASK = "embedding"
INPUTS = ("input_ids", "attention_mask")
POOLINGS = ("mean", "cls")
"""How a window becomes one vector: the mean over its tokens, special ones included, or the first
token's. Several windows are weighted by their tokens."""

LEVELS = ("page", "field", "document")

_FILE_NAME = re.compile(r"\S+\.(pdf|png|jpe?g|tiff?|webp|txt|json|html?|hocr)", re.IGNORECASE)


class EmbeddingModel(Model):
    """A verified model that turns text into vectors; it holds no state between calls.

    Attributes:
        certificate: What its signer certifies about its privacy.
        preprocessing: How text becomes its inputs.
        pooling: One of POOLINGS.
        dimensions: Numbers in each vector.
    """

    def __init__(
        self, *, certificate: Certificate, pooling: str, encoder: Encoder, session: Session
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.preprocessing = encoder.preprocessing
        self.pooling = pooling
        self.device = session.device
        self.dimensions = output_width(session, ("batch", "sequence"), what="an embedding")
        self._encoder = encoder
        self._session = session

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        require_class(artifact.certificate.model, "EmbeddingModel")
        preprocessing, pooling = _contract(artifact.manifest["preprocessing"])
        encoder = Encoder(artifact.read("tokenizer.json"), preprocessing)
        session = open_graph(artifact, INPUTS, device=device, runtime=runtime)
        certificate = artifact.certificate
        return cls(certificate=certificate, pooling=pooling, encoder=encoder, session=session)

    def _extent(self) -> str:
        return f"{self.dimensions} dimensions"

    def embed(
        self,
        document: Item,
        *,
        level: Literal["page", "field", "document"] = "page",
        fields: Iterable[Field] | None = None,
    ) -> Embedding:
        """Returns the vectors of a document's pages or fields, or of all of it, or of a text.

        Args:
            document: On pages, whose words are joined by spaces, or a plain text, which counts as
                one page; a `pathlib.Path` of a file; or a function that returns a document. A
                string is a text and never a path here: `embed("two words")` is
                `embed_texts(["two words"])`, whatever the level, and warns of a text that looks
                like a file's name.
            level: What gets a vector. "field": each field's text, read on its own.
            fields: For the level "field" and only there: what to embed, such as
                `Extraction.fields`.

        Raises:
            EmptyDocumentError: The document has no word at all.
            InputError: An argument is not a Document or a Field, or a word or box can't be used.
                A path raises what `hushdoc.open_document` does.
            LimitExceededError: The runtime's memory limit is too small for one window.
            ModelClosedError: The model was closed.
        """
        arguments.choice(level, LEVELS, what="level")
        if (fields is None) == (level == "field"):
            raise ValueError(
                f"level is {level!r} and fields are {arguments.described(fields)}; expected fields "
                "with level='field', and only there."
            )
        used = self._in_use()
        if isinstance(document, str) and fields is None:
            return _noted(used.embed_texts([document]), document)
        text = Document.from_text(document) if isinstance(document, str) else document
        return used._embed(document_of(text), level, fields)

    async def aembed(
        self,
        document: Item,
        *,
        level: Literal["page", "field", "document"] = "page",
        fields: Iterable[Field] | None = None,
    ) -> Embedding:
        """Returns what `embed` does, while the event loop goes on, as `KIEModel.aextract` does.

        Args:
            document: As for `embed`.
            level: What gets a vector.
            fields: For the level "field" and only there: what to embed.

        Raises:
            HushdocError: As `embed` raises it.
        """
        return await in_thread(partial(self._in_use().embed, document, level=level, fields=fields))

    def _embed(self, document: Document, level: str, fields: Iterable[Field] | None) -> Embedding:
        texts = texts_of(document, self.preprocessing)
        if fields is not None:
            found = _fields(fields)
            texts = [item.text for item in found]
            pages: tuple[int | None, ...] = tuple(item.page for item in found)
            labels: tuple[str | None, ...] = tuple(item.label for item in found)
            return self._answer(document, level, texts, range(len(texts)), "Field", pages, labels)
        together = level == "document"
        rows = [0] * len(texts) if together else range(len(texts))
        pages = (None,) if together else tuple(rows)
        return self._answer(document, level, texts, rows, "Page", pages, (None,) * len(pages))

    def embed_texts(self, texts: Sequence[str]) -> Embedding:
        """Returns one vector for each text.

        Args:
            texts: In any number; an empty one gets a vector of zeros, and a warning.

        Raises:
            InputError: A text is not a string, or not valid Unicode.
            LimitExceededError: The runtime's memory limit is too small for one window.
        """
        texts = arguments.listed(texts, what="What should be texts", of="strings")
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(
                    f"Text {number} is {type(text).__name__}, expected a string. Leave it out."
                )
        nothing = (None,) * len(texts)
        used = self._in_use()
        return used._answer(None, "text", texts, range(len(texts)), "Text", nothing, nothing)

    async def aembed_texts(self, texts: Sequence[str]) -> Embedding:
        """Returns what `embed_texts` does, while the event loop goes on.

        Args:
            texts: In any number.

        Raises:
            HushdocError: As `embed_texts` raises it.
        """
        return await in_thread(partial(self._in_use().embed_texts, texts))

    def embed_many(
        self,
        documents: Iterable[Item],
        *,
        level: Literal["page", "document"] = "page",
        workers: int = 1,
        on_error: Literal["raise", "collect"] = "raise",
        progress: bool = False,
        reader: str = "here",
    ) -> Iterator[Embedding | Failure]:
        """Yields the vectors of each document, in their order, as soon as they are known.

        Args:
            documents: Documents, paths of files (strings too, unlike in `embed`), or functions that
                return a document, such as `partial(open_document, path, password=...)`; taken a few
                at a time, so a generator streams.
            level: What gets a vector.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to report progress on standard error.
            reader: Where files given by their paths are read: "here", or in a "process" of their
                own, one for each worker, within the time and memory of `ReadingLimits`.
        """
        arguments.choice(level, ("page", "document"), what="level")
        return answers(
            documents,
            partial(self._in_use()._embed, level=level, fields=None),
            workers=workers,
            on_error=on_error,
            progress=progress,
            opened=opener(reader),
        )

    def _answer(
        self,
        document: Document | None,
        level: str,
        texts: Sequence[str],
        rows: Sequence[int],
        what: str,
        pages: tuple[int | None, ...],
        labels: tuple[str | None, ...],
    ) -> Embedding:
        clock = StageClock()
        encoded = [self._encoder.encode_text(text) for text in texts]
        plan = windows.cover(
            encoded, capacity=self.preprocessing.capacity, overlap=self.preprocessing.overlap
        )
        clock.count("encoding")
        sums, weights = self._pooled(encoded, plan, rows, len(pages))
        clock.count("model")
        vectors = _directions(sums / np.maximum(weights, 1)[:, None])
        read: list[list[EncodedPage]] = [[] for _ in pages]
        for row, item in zip(rows, encoded, strict=True):
            read[row].append(item)
        counts = np.bincount([rows[part.page] for part in plan], minlength=len(pages))
        return Embedding(
            document_id=None if document is None else document.id,
            level=level,
            vectors=vectors,
            pages=pages,
            labels=labels,
            coverage=tuple(windows.coverage(row) for row in read),
            num_windows=tuple(counts.tolist()),
            warnings=tuple(_warnings(encoded, self.preprocessing.capacity, what)),
            source=None if document is None else document.source,
            timings=clock.timings(),
        )

    def _pooled(
        self,
        pages: Sequence[EncodedPage],
        plan: Sequence[windows.Window],
        rows: Sequence[int],
        num_rows: int,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Returns for each row the weighted sum over its windows, and the weights' sum."""
        sums = np.zeros((num_rows, self.dimensions))
        weights = np.zeros(num_rows)
        for batch, hidden in window_outputs(self._session, self._encoder, pages, plan):
            for states, part in zip(hidden, batch, strict=True):
                tokens = part.num_tokens + 2
                sums[rows[part.page]] += self._window_sum(states[:tokens])
                weights[rows[part.page]] += tokens
        return sums, weights

    def _window_sum(self, states: Array) -> npt.NDArray[np.float64]:
        if self.pooling == "cls":
            return np.asarray(states[0].astype(np.float64) * len(states))
        return np.asarray(states.sum(axis=0, dtype=np.float64))


def _fields(given: object) -> tuple[Field, ...]:
    """Returns the fields that a caller passed."""
    what, advice = "The argument 'fields'", "Pass an answer's, such as `Extraction.fields`."
    return tuple(
        arguments.instance(item, Field, what=f"Field {number}", advice=advice)
        for number, item in enumerate(arguments.each(given, what=what, of="fields"))
    )


def _noted(answer: Embedding, text: str) -> Embedding:
    """Returns the answer, with a warning where its text may have been meant as a path."""
    if not _FILE_NAME.fullmatch(text):
        return answer
    note = (
        f"The text {arguments.short_repr(text)} looks like a file's name, and was embedded as a "
        "text. Pass pathlib.Path(...) for the file."
    )
    return replace(answer, warnings=(*answer.warnings, note))


def _directions(vectors: npt.NDArray[np.float64]) -> Vectors:
    """Returns the vectors at length one; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    directions.flags.writeable = False
    return directions


def _warnings(pages: Sequence[EncodedPage], capacity: int, what: str) -> Iterator[str]:
    yield from windows.losses(pages, capacity=capacity, what=what)
    empty = [number for number, page in enumerate(pages) if not len(page.ids)]
    if empty:
        shown = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        yield f"{what} {shown}: there is nothing the model can read; it adds nothing to a vector."


def _contract(data: Mapping[str, Any]) -> tuple[Preprocessing, str]:
    settings = dict(data)
    pooling = settings.pop("pooling", None)
    if pooling not in POOLINGS:
        raise ArtifactError(
            f"The preprocessing contract declares the pooling {pooling!r}; this version knows "
            f"{', '.join(POOLINGS)}. Export the artifact again with this version of hushdoc."
        )
    return Preprocessing.from_dict(settings), pooling
