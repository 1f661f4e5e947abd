"""The folder that fitting hands to export: a complete table with what it takes to read it.

checkpoint.json       format version, model, and digests of what was fitted
table.safetensors     weights [rows, labels] and transitions [labels, labels], float32
labels.json           the labels of items in the order of the columns
scheme.json           how text becomes rows
claim.json            what training says about privacy
clusters.safetensors  public clusters of words, where the scheme has some
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.claim import Claim
from hushdoc.errors import ArtifactError, CertificateError, CheckpointError, needs_extra
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc.system import atomic_files
from hushdoc_training import claimed_files

FORMAT_VERSION = 1
MODEL = "hashed-table"
TABLE, CLUSTERS = "table.safetensors", "clusters.safetensors"

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class TableCheckpoint:
    """A table that can be sealed.

    Attributes:
        weights: Shape [rows, labels], no weight missing.
        transitions: Shape [labels, labels], from a label to the next.
        tags: The labels of items in the order of the columns.
        scheme: How text becomes rows.
        claim: What training says about privacy.
        clusters: The scheme's clusters of words.
    """

    weights: Floats
    transitions: Floats
    tags: tuple[str, ...]
    scheme: FeatureScheme
    claim: Claim
    clusters: Clusters | None = None

    def __post_init__(self) -> None:
        """Refuses parts that do not fit one another, and tables with gaps."""
        expected = (self.scheme.rows, len(self.tags)), (len(self.tags), len(self.tags))
        if (self.weights.shape, self.transitions.shape) != expected:
            raise CheckpointError(
                f"The table has weights {self.weights.shape} and transitions "
                f"{self.transitions.shape}; {self.scheme.rows} rows and {len(self.tags)} labels "
                f"need {expected[0]} and {expected[1]}. Fit it again."
            )
        if not (np.isfinite(self.weights).all() and np.isfinite(self.transitions).all()):
            raise CheckpointError(
                "The table has weights that are missing or infinite; expected numbers. Fill it "
                "before it is kept, or write zeros for missing weights."
            )
        if (self.clusters is None) != (self.scheme.clusters == 0):
            raise CheckpointError(
                f"The scheme has {self.scheme.clusters} clusters and "
                f"{'none' if self.clusters is None else 'some'} were given. Give the clusters it "
                "was fitted with."
            )


def save(folder: Path, table: TableCheckpoint) -> None:
    """Writes a checkpoint, whole or not at all.

    Args:
        folder: Where it shall stand; nothing may be there yet.
        table: What to write.

    Raises:
        OutputExistsError: Something already stands there.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        MissingExtraError: safetensors is not installed.
    """
    with needs_extra("safetensors", "training"):
        from safetensors.numpy import save_file
    texts: dict[str, dict[str, Any]] = {
        "labels.json": {"tags": list(table.tags)},
        "scheme.json": table.scheme.to_dict(),
    }
    with atomic_files.new_folder(folder) as partial:
        save_file(_packed(weights=table.weights, transitions=table.transitions), partial / TABLE)
        if (clusters := table.clusters) is not None:
            save_file(_packed(hashes=clusters.hashes, ids=clusters.ids), partial / CLUSTERS)
        (partial / claimed_files.CLAIM).write_bytes(table.claim.to_json())
        head = {"formatVersion": FORMAT_VERSION, "model": MODEL}
        texts["checkpoint.json"] = {**head, claimed_files.KEY: claimed_files.digests(partial)}
        for name, content in texts.items():
            (partial / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def holds_table(folder: Path) -> bool:
    """Returns whether a folder, or the checkpoint in it, says that it holds a table."""
    for place in (folder / "checkpoint", folder):
        try:
            return _read(place / "checkpoint.json").get("model") == MODEL
        except (OSError, TypeError, ValueError):
            continue
    return False


def load(folder: Path) -> TableCheckpoint:
    """Returns the checkpoint in a folder, or in the run folder around it."""
    if (folder / "checkpoint").is_dir():
        folder = folder / "checkpoint"
    with needs_extra("safetensors", "training"):
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    try:
        head = _read(folder / "checkpoint.json")
        if (head.get("formatVersion"), head.get("model")) != (FORMAT_VERSION, MODEL):
            raise ValueError(f"it is format {head.get('formatVersion')} of {head.get('model')}")
        claimed_files.require_same(folder, head)
        scheme = FeatureScheme.from_dict(_read(folder / "scheme.json"))
        tensors = load_file(folder / TABLE)
        return TableCheckpoint(
            weights=tensors["weights"],
            transitions=tensors["transitions"],
            tags=tuple(_read(folder / "labels.json")["tags"]),
            scheme=scheme,
            claim=Claim.from_json((folder / "claim.json").read_bytes()),
            clusters=Clusters(**load_file(folder / CLUSTERS)) if scheme.clusters else None,
        )
    except (
        KeyError, TypeError, ValueError, OSError, OverflowError, RecursionError, SafetensorError,
        ArtifactError, CertificateError,
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"'{folder}' is no checkpoint of a table of hashed features: "
            f"{type(error).__name__}: {error}. Give the folder that training wrote, or train again."
        ) from error


def _packed(**tensors: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def _read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"{path.name} holds {type(value).__name__}")
    return value
