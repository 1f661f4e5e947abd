"""Model: how every verified model is loaded, and which class runs which artifact.

Contract: an artifact is opened, and so fully checked, before anything is built from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from hushdoc import arguments
from hushdoc.artifact import artifact as artifacts
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.document.document import Document
from hushdoc.errors import TaskMismatchError
from hushdoc.policy.policy import Policy
from hushdoc.runtime.session import PROVIDERS, Runtime

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
