"""Model: how every verified model is loaded, and which class runs which artifact.

Contract: an artifact is opened, and so fully checked, before anything is built from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from hushdoc import arguments
from hushdoc.artifact import artifact as artifacts
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, TaskMismatchError
from hushdoc.labels import LabelSet
from hushdoc.policy.policy import Policy
from hushdoc.runtime.extraction import Extraction, Failure
from hushdoc.runtime.session import PROVIDERS, Runtime
from hushdoc.runtime.streaming import Item, answers, opener
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
}
"""The class in `hushdoc` that runs each task and file format."""

SUBCOMMANDS = {
    "KIEModel": "extract",
    "HashedCRFModel": "extract",
    "ClassificationModel": "classify",
    "EmbeddingModel": "embed",
}
"""The subcommand that asks each class of model."""


class Model(ABC):
    """A verified model of one task; it holds no state between calls, so threads may share it.

    Attributes:
        certificate: What its signer certifies about its privacy.
    """

    certificate: Certificate

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
            path: The artifact's folder.
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


class FieldModel(Model):
    """A verified model that finds the fields of documents.

    Attributes:
        labels: The fields it can find.
    """

    labels: LabelSet

    @abstractmethod
    def extract(self, document: Document) -> Extraction:
        """Returns the fields of a document."""

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
                streams.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to report progress on standard error.
            reader: Where files given by their paths are read: "here", or in a "process" of their
                own, one for each worker, within the time and memory of `ReadingLimits`.
        """
        return answers(
            documents,
            self.extract,
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
    folder = arguments.path(path, what="The artifact's folder")
    arguments.choice(device, tuple(PROVIDERS), what="device")
    advice = "Pass such as Runtime(threads=2), or leave it out."
    arguments.optional(runtime, Runtime, what="The argument 'runtime'", advice=advice)
    with artifacts.open_artifact(folder, policy, low_memory=low_memory) as artifact:
        yield artifact


def require_class(identity: ModelIdentity, *names: str) -> str:
    """Returns which of these classes runs an artifact; TaskMismatchError says what does if none."""
    name = CLASS_NAMES.get((identity.task, identity.format))
    if name in names:
        return name
    advice = (
        "Install the version of hushdoc that wrote it."
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
