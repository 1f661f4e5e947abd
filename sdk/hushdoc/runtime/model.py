"""Model: how every verified model is loaded, and which class runs which artifact.

Contract: an artifact is opened, and so fully checked, before anything is built from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn, Self

from hushdoc import arguments
from hushdoc.arguments import short_repr
from hushdoc.artifact import artifact as artifacts
from hushdoc.artifact import hub
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.claim import Guarantee
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, InputError, ModelClosedError, TaskMismatchError
from hushdoc.labels import LabelSet
from hushdoc.policy.policy import Policy
from hushdoc.runtime.asynchronous import in_thread
from hushdoc.runtime.extraction import Extraction, Failure
from hushdoc.runtime.session import PROVIDERS, Runtime, give_back_freed_memory
from hushdoc.runtime.streaming import Item, answers, document_of, opener
from hushdoc.serialization import strict_json

LABELS_FILE = "labels.json"
MAX_LABELS_BYTES = 16 * 2**20
"""No list of names is longer."""

CLASS_NAMES = {
    ("kie", "onnx"): "KIEModel",
    ("kie", "safetensors"): "HashedCRFModel",
    ("classification", "onnx"): "ClassificationModel",
    ("classification", "safetensors"): "ClassificationModel",
    ("embedding", "onnx"): "EmbeddingModel",
    ("docvqa", "onnx"): "DocVQAModel",
}
"""The class in `hushdoc` that runs each task and file format."""

SUBCOMMANDS = {
    "KIEModel": "extract",
    "HashedCRFModel": "extract",
    "ClassificationModel": "classify",
    "EmbeddingModel": "embed",
    "DocVQAModel": "ask",
}
"""The subcommand that asks each class of model."""


class Model(ABC):
    """A verified model of one task; it holds no state between calls, so threads may share it.

    As a context manager it is closed at the end of the block.

    Attributes:
        certificate: What its signer certifies about its privacy.
        device: "cpu" or "cuda": what runs it.
        closed: Whether `close` was called.
    """

    certificate: Certificate
    device = "cpu"
    closed = False

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        policy: Policy,
        device: str = "cpu",
        runtime: Runtime | None = None,
        low_memory: bool = False,
    ) -> Self:
        """Returns the model of an artifact that the policy accepts.

        Args:
            path: The artifact's folder, or "hf://ORGANISATION/NAME@REVISION" of a model hub.
            policy: What the application demands of the certificate.
            device: "cpu" or "cuda"; a device that is absent, or that the model can't use, raises.
                Tables of hashed features run on the cpu only.
            runtime: Threads and memory of graphs; all usable cores by default.
            low_memory: Whether the weights are loaded from the file that was checked, rather than
                from a second copy in memory. Needs Linux. A table of hashed features stays mapped
                from that file, which may then be replaced, but not overwritten in place: that would
                change answers, or end the process.

        Raises:
            InputError: The path is not a path, or the runtime not a Runtime.
            ArtifactError: The folder is not a sound artifact.
            CertificateError: The certificate is missing, malformed or not signed by a trusted key.
            PolicyViolationError: The policy refuses the certificate.
            TaskMismatchError: Another class of model runs the artifact; the message names it.
            DeviceUnavailableError: The device is absent, or the model can't use it.
        """
        with opened(path, policy, device, runtime, low_memory=low_memory) as artifact:
            return cls.from_artifact(artifact, device=device, runtime=runtime)

    @classmethod
    @abstractmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""

    def close(self) -> None:
        """Gives the weights' memory back; asking the model then raises ModelClosedError.

        Calls and streams of answers that have begun, in any thread, end as if it were open, and
        the memory goes with the last of them. Closing again does nothing.
        """
        self.closed = True
        for part in [name for name in vars(self) if name.startswith("_")]:
            vars(self).pop(part, None)  # another thread may close it too
        give_back_freed_memory()

    def __enter__(self) -> Self:
        """Returns the model itself; ModelClosedError where it is closed."""
        self._in_use()
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the model."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Raises InputError: a model that was pickled would come back unchecked."""
        raise InputError(
            f"A {type(self).__name__} can't be pickled, as no policy would be checked where it is "
            "read. Threads share a model; let each process load the artifact."
        )

    def __copy__(self) -> Self:
        """Returns another model of the same parts."""
        found = object.__new__(type(self))  # eight times as fast as by what pickles it
        vars(found).update(vars(self))
        return found

    def __repr__(self) -> str:
        """Returns class, artifact, what it knows, its guarantees and its device."""
        identity = self.certificate.model
        parts = [
            self._extent(),
            *(_in_short(item) for item in self.certificate.claim.guarantees),
            self.device,
            *(["closed"] if self.closed else []),
        ]
        return (
            f"<hushdoc.{type(self).__name__} {short_repr(identity.name)} version "
            f"{identity.version}: {', '.join(parts)}>"
        )

    @abstractmethod
    def _extent(self) -> str:
        """Returns in a word or two how much the model knows."""

    def _in_use(self) -> Self:
        """Returns the model for one call, whose parts stay until it ends, even if it is closed."""
        used = self.__copy__()
        if used.closed:
            raise ModelClosedError(
                f"The model {short_repr(self.certificate.model.name)} was closed and can't be "
                "asked any more. Load it again, or close it later."
            )
        return used


class FieldModel(Model):
    """A verified model that finds the fields of documents.

    Attributes:
        labels: The fields it can find.
    """

    labels: LabelSet

    def extract(self, document: Item) -> Extraction:
        """Returns the fields of a document; pages longer than a window are read in several.

        Args:
            document: A document, the path of a file that `hushdoc.open_document` reads, or a
                function that returns a document, such as `partial(open_document, content)`. Where
                the model reads images, each page with words needs one.

        Raises:
            EmptyDocumentError: The document has no page or no word.
            BoxError: A box is NaN, swapped or off its page.
            InputError: It is no document, a page has no area, a word is empty or not valid Unicode,
                or a page has no image (NO_IMAGE) and the model reads it. A path raises what
                `hushdoc.open_document` does.
            TaskMismatchError: The document is a plain text, and the model reads pages.
            LimitExceededError: The runtime's memory limit is too small for one window.
            ModelClosedError: The model was closed.
        """
        return self._in_use()._extract(document_of(document))

    @abstractmethod
    def _extract(self, document: Document) -> Extraction:
        """Returns the fields of a document; a closed model has no parts for it."""

    async def aextract(self, document: Item) -> Extraction:
        """Returns what `extract` does, while the event loop goes on.

        A file is read, and the model run, in one of a few threads that all models of a process
        share: as many as the cores it may use, and two at least. Further calls wait their turn. A
        call that is cancelled while it waits is never begun; one that runs ends, and its answer is
        dropped.

        Args:
            document: As for `extract`.

        Raises:
            HushdocError: As `extract` raises it.
        """
        return await in_thread(partial(self._in_use().extract, document))

    def extract_many(
        self,
        documents: Iterable[Item],
        *,
        workers: int = 1,
        on_error: Literal["raise", "collect"] = "raise",
        progress: bool = False,
        reader: str = "here",
    ) -> Iterator[Extraction | Failure]:
        """Yields one answer for each document, in their order, as soon as it is known.

        Args:
            documents: Documents, paths of files, or functions that return a document, such as
                `partial(open_document, path, password=...)`; taken a few at a time, so a generator
                streams. An answer's `document_id` is the document's id, that of a path the file's
                name without its ending; a Failure has the path.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to report progress on standard error.
            reader: Where files given by their paths are read: "here", or in a "process" of their
                own, one for each worker, within the time and memory of `ReadingLimits`.
        """
        return answers(
            documents,
            self._in_use().extract,
            workers=workers,
            on_error=on_error,
            progress=progress,
            opened=opener(reader),
        )


@contextmanager
def opened(
    path: str | Path, policy: Policy, device: str, runtime: Runtime | None, *, low_memory: bool
) -> Iterator[Artifact]:
    """Opens and checks the artifact that `Model.load` was asked for; its arguments come first."""
    folder = hub.located(path)
    arguments.choice(device, tuple(PROVIDERS), what="device")
    advice = "Pass such as Runtime(threads=2), or leave it out."
    arguments.optional(runtime, Runtime, what="The argument 'runtime'", advice=advice)
    with artifacts.open_artifact(folder, policy, low_memory=low_memory) as artifact:
        yield artifact


def _in_short(guarantee: Guarantee) -> str:
    """Returns a guarantee in a few words, or that it is none."""
    against = f"{guarantee.unit} against {guarantee.adversary}"
    if guarantee.epsilon is None or guarantee.delta is None:
        measured = guarantee.kind == "empirical"
        return f"{'attacks measured, ' if measured else ''}no guarantee for a {against}"
    condition = " on a condition" if guarantee.kind == "dp-conditional" else ""
    return f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g}{condition} for a {against}"


def require_class(identity: ModelIdentity, *names: str) -> str:
    """Returns which of these classes runs an artifact; TaskMismatchError says what does if none."""
    name = CLASS_NAMES.get((identity.task, identity.format))
    if name in names:
        return name
    advice = (
        "It holds documents: open it with hushdoc.SyntheticDocuments."
        if identity.task == "synthetic-documents"
        else "Install the version of hushdoc that wrote it."
        if name is None
        else f"Load it with hushdoc.{name}, or use `hushdoc {SUBCOMMANDS[name]}`."
    )
    raise TaskMismatchError(
        f"The artifact holds a model for the task '{identity.task}' in the format "
        f"'{identity.format}'; {' or '.join(names)} can't run it. {advice}"
    )


def require_pages(document: Document, *, reads: str) -> None:
    """Raises TaskMismatchError where a plain text is given to a model that reads pages."""
    if document.text is not None:
        raise TaskMismatchError(
            f"Document '{document.id}' is a plain text, and this model reads {reads}. Give it a "
            "PDF, an image or Document.from_words; plain texts are read by models of text and by "
            "tables of hashed features, such as hushdoc.HashedCRFModel."
        )


def read_names(artifact: Artifact, key: str) -> tuple[str, ...]:
    """Returns the different names that an artifact's labels.json lists under a key."""
    try:
        names = strict_json.loads(
            artifact.read(LABELS_FILE),
            what=f"'{LABELS_FILE}'",
            code=ArtifactError.default_code,
            error=ArtifactError,
            max_bytes=MAX_LABELS_BYTES,
        )[key]
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise TypeError(f"{key} must be a list of names")
        if len(set(names)) != len(names) or not names:
            raise ValueError("there must be a name, and each once")
    except (ArtifactError, KeyError, TypeError, ValueError) as error:
        raise unreadable_names(error, key) from error
    return tuple(names)


def unreadable_names(error: Exception, key: str) -> ArtifactError:
    """Returns the error for names that a model can't use."""
    return ArtifactError(
        f'{LABELS_FILE} can\'t be read: {error}. Expected {{"{key}": [names]}}; export the '
        "artifact again."
    )
