"""What all models share whose graph ONNX Runtime runs: they come from a checked artifact alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from hushdoc.artifact import Artifact, open_artifact
from hushdoc.policy import Policy
from hushdoc.runtime.session import Runtime


class GraphModel(ABC):
    """A verified model; there is one class for each task."""

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
        with open_artifact(Path(path), policy, low_memory=low_memory) as checked:
            return cls.from_artifact(checked, device=device, runtime=runtime)

    @classmethod
    @abstractmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
