"""Loads an artifact of any task; applications that know theirs load its model class instead."""

from __future__ import annotations

from pathlib import Path

from hushdoc import arguments
from hushdoc.artifact import artifact as artifacts
from hushdoc.errors import DeviceUnavailableError, TaskMismatchError
from hushdoc.policy.policy import Policy
from hushdoc.runtime import classification, embedding, kie
from hushdoc.runtime.hashed import model as crf
from hushdoc.runtime.session import PROVIDERS, Runtime

Model = (
    kie.KIEModel
    | crf.HashedCRFModel
    | classification.ClassificationModel
    | embedding.EmbeddingModel
)

MODELS: dict[tuple[str, str], type[Model]] = {
    (kie.TASK, "onnx"): kie.KIEModel,
    (crf.TASK, crf.FORMAT): crf.HashedCRFModel,
    (classification.TASK, "onnx"): classification.ClassificationModel,
    (embedding.TASK, "onnx"): embedding.EmbeddingModel,
}
"""The model of each task and file format."""


def load(
    path: str | Path,
    *,
    policy: Policy,
    device: str = "cpu",
    runtime: Runtime | None = None,
    low_memory: bool = False,
) -> Model:
    """Returns the model of whatever task a verified artifact was built for.

    Args:
        path: The artifact's folder.
        policy: What the application demands of the certificate.
        device: "cpu" or "cuda"; a device that is not there, or that the model can't use, raises.
        runtime: Threads and memory of graphs; all usable cores by default.
        low_memory: Whether the weights are loaded from the file that was checked, rather than from
            a second copy in memory. Needs Linux; see `HashedCRFModel.load` for tables.

    Raises:
        InputError: The path or the runtime is none.
        ArtifactError: The folder is not a sound artifact.
        CertificateError: The certificate is missing, malformed or not signed by a trusted key.
        PolicyViolationError: The policy refuses the certificate.
        TaskMismatchError: No model of this version does the artifact's task.
        DeviceUnavailableError: The device is not there.
    """
    folder = arguments.place(path, what="The artifact's folder")
    arguments.choice(device, tuple(PROVIDERS), what="device")
    advice = "Pass such as Runtime(threads=2), or leave it out."
    arguments.optional(runtime, Runtime, what="The argument 'runtime'", advice=advice)
    with artifacts.open_artifact(folder, policy, low_memory=low_memory) as artifact:
        model = artifact.certificate.model
        kind = MODELS.get((model.task, model.format))
        if kind is None:
            known = ", ".join(f"{task} ({form})" for task, form in MODELS)
            raise TaskMismatchError(
                f"The artifact was built for the task '{model.task}' ({model.format}); this "
                f"version runs {known}. Install the version of hushdoc that wrote it."
            )
        if not issubclass(kind, crf.HashedCRFModel):
            return kind.from_artifact(artifact, device=device, runtime=runtime)
        if device != "cpu":
            raise DeviceUnavailableError(
                f"The device is '{device}'; a table of hashed features is read on the cpu alone. "
                "Leave the device out."
            )
        return kind.from_artifact(artifact)
