"""Loads an artifact of any task; applications that know theirs load its model class instead."""

from __future__ import annotations

from pathlib import Path

from hushdoc.policy.policy import Policy
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.embedding import EmbeddingModel
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.model import opened, require_class
from hushdoc.runtime.session import Runtime

Model = KIEModel | HashedCRFModel | ClassificationModel | EmbeddingModel | DocVQAModel

CLASSES: dict[str, type[Model]] = {
    cls.__name__: cls
    for cls in (KIEModel, HashedCRFModel, ClassificationModel, EmbeddingModel, DocVQAModel)
}


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
        path: The artifact's folder, or "hf://ORGANISATION/NAME@REVISION" of a model hub.
        policy: What the application demands of the certificate.
        device: "cpu" or "cuda".
        runtime: Threads and memory of graphs; all usable cores by default.
        low_memory: Whether the weights are loaded from the file that was checked, rather than from
            a second copy in memory. Needs Linux.

    Raises:
        HushdocError: As `KIEModel.load` raises it; TaskMismatchError where no model of this version
            runs the artifact's task.
    """
    with opened(path, policy, device, runtime, low_memory=low_memory) as artifact:
        model = CLASSES[require_class(artifact.certificate.model, *CLASSES)]
        return model.from_artifact(artifact, device=device, runtime=runtime)
