"""Ports: a graph's inputs and outputs, held against what its manifest and its model need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hushdoc.errors import ArtifactError, TaskMismatchError
from hushdoc.runtime.session import Array, Session


def require_task(manifest: Mapping[str, Any], task: str, model: str) -> None:
    """Raises TaskMismatchError unless an artifact was built for a task.

    Args:
        manifest: The artifact's.
        task: What the model does.
        model: The name of its class, for the message.
    """
    if manifest["task"] != task:
        raise TaskMismatchError(
            f"The artifact was built for the task {manifest['task']!r}; {model} needs '{task}'. "
            "Load it with hushdoc.load, or use an artifact of that task."
        )


def require_ports(session: Session, manifest: Mapping[str, Any], inputs: Collection[str]) -> None:
    """Raises unless the graph is the one the manifest tells of and reads what the model gives.

    Args:
        session: The loaded graph.
        manifest: The artifact's.
        inputs: The names of the inputs that the model fills.
    """
    for told, real in (
        (manifest["inputs"], session.inputs),
        (manifest["outputs"], session.outputs),
    ):
        shapes = {item["name"]: item["shape"] for item in told if _is_port(item)}
        if shapes != real:
            raise ArtifactError(
                f"The manifest tells of {shapes}, the graph has {real}. Export the artifact again."
            )
    if sorted(session.inputs) != sorted(inputs):
        raise ArtifactError(
            f"The graph reads {sorted(session.inputs)}; a model for '{manifest['task']}' reads "
            f"{sorted(inputs)}. Export the artifact again."
        )


def require_finite(numbers: Array) -> None:
    """Raises ArtifactError if a graph answered with a number that is not finite."""
    if not np.isfinite(numbers).all():
        raise ArtifactError(
            "The model answered with numbers that are not finite. Its weights are damaged or "
            "overflow on this device; export the artifact again."
        )


def _is_port(item: Any) -> bool:
    return isinstance(item, dict) and {"name", "shape"} <= item.keys() and type(item["name"]) is str
