"""Loads an artifact of any task; applications that know theirs load its model class instead."""

from __future__ import annotations

from pathlib import Path

from hushdoc import artifact as artifacts
from hushdoc.errors import TaskMismatchError
from hushdoc.policy import Policy
from hushdoc.runtime import kie
from hushdoc.runtime.session import Runtime

MODELS = {kie.TASK: kie.KIEModel}


def load(
    path: str | Path,
    *,
    policy: Policy,
    device: str = "cpu",
    runtime: Runtime | None = None,
    low_memory: bool = False,
) -> kie.KIEModel:
    """Returns the model of whatever task a verified artifact was built for.

    Args:
        path: The artifact's folder.
        policy: What the application demands of the certificate.
        device: "cpu" or "cuda"; a device that is not there raises.
        runtime: Threads and memory; all usable cores by default.
        low_memory: Whether the weights are loaded from the file that was checked, rather than from
            a second copy in memory. Needs Linux.

    Raises:
        ArtifactError: The folder is not a sound artifact.
        CertificateError: The certificate is missing, malformed or not signed by a trusted key.
        PolicyViolationError: The policy refuses the certificate.
        TaskMismatchError: No model of this version does the artifact's task.
        DeviceUnavailableError: The device is not there.
    """
    with artifacts.open_artifact(Path(path), policy, low_memory=low_memory) as artifact:
        task = artifact.manifest["task"]
        if task not in MODELS:
            raise TaskMismatchError(
                f"The artifact was built for the task '{task}'; this version runs "
                f"{', '.join(MODELS)}. Install the version of hushdoc that wrote it."
            )
        return MODELS[task].from_artifact(artifact, device=device, runtime=runtime)
