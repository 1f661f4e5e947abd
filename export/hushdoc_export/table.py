"""A table of hashed features becomes a sealed artifact: rounded, certified, signed.

hushdoc.json           manifest with the scheme of the features
table.safetensors      for every row, by how much the weights of each label exceed those of one that
                       is left out ("O", or the first); their scale if they are bytes; transitions
labels.json            the fields, and the labels of items in the order of the fitted columns; of
                       a classifier the classes in that order
clusters.safetensors   public clusters of words, where the scheme has some

Answers depend on nothing but differences of a row's weights, so one column can be spared. Neither
that nor rounding reads anything but the table, which is complete, so they can neither cost nor give
privacy. A row of floats that they would turn into zeros, as if nothing stood there, keeps its
largest weight as the smallest one that can be written; bytes write zero as 128, and never 0. So a
table with empty rows can be sealed too, but only where its claim declares no guarantee.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.artifact.manifest import TABLE_KEY
from hushdoc.errors import CheckpointError, needs_extra
from hushdoc.hashing import segmentation
from hushdoc.labels import OUTSIDE
from hushdoc.runtime.hashed import class_scoring, classifier
from hushdoc.runtime.hashed.model import TASK, label_set
from hushdoc.runtime.hashed.sealed_table import CLUSTERS_FILE, FORMAT
from hushdoc.runtime.hashed.table import HASHES, IDS, SCALE, TRANSITIONS, ZERO_POINT, HashedTable
from hushdoc.runtime.model import LABELS_FILE
from hushdoc.system import atomic_files
from hushdoc_export import sealing
from hushdoc_export.release import Release
from hushdoc_training import table_checkpoint
from hushdoc_training.table_checkpoint import TableCheckpoint

ENTRY = "table.safetensors"
WEIGHTS = "weights"
DTYPES = ("float16", "int8")

Floats = npt.NDArray[np.float32]

_LARGEST_BYTE = 127


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedTable:
    """Weights as they are written: float16, or bytes of which 128 stands for 0.

    No row is all zero.
    """

    weights: npt.NDArray[Any]
    scale: Floats | None  # of columns: what bytes less 128 are multiplied with; None for floats
    largest_error: float  # the most by which any weight changed
    raised_rows: int  # rows that would have become zeros


def export_table(
    checkpoint_folder: Path, out: Path, release: Release, *, dtype: str = "float16"
) -> Path:
    """Returns the folder of the artifact that was made from a checkpoint of a table."""
    atomic_files.require_free(out)
    return seal_table(out, table_checkpoint.load(checkpoint_folder), release, dtype=dtype)


def differences(weights: Floats, tags: Sequence[str]) -> tuple[Floats, int | None]:
    """Returns by how much the weights of all labels but one exceed its own, and which that is.

    "O" is left out, or the first label where there is none; of one label alone nothing is.

    Example:
        >>> lean, reference = differences(np.array([[1.0, 3.0]], np.float32), ["RELEVANT", "O"])
        >>> lean.tolist(), reference
        ([[-2.0]], 1)
    """
    if len(tags) == 1:
        return weights, None
    reference = tags.index(OUTSIDE) if OUTSIDE in tags else 0
    others = np.delete(weights, reference, axis=1)
    others -= weights[:, [reference]]
    return others, reference


def rounded(weights: Floats, dtype: str) -> RoundedTable:
    """Returns a table in fewer bits; a weight that is not finite or too large is a CheckpointError.

    "int8" has one scale for each column, of which the largest weight becomes 127, so no weight is
    cut off and none moves by more than half a scale.

    Example:
        >>> table = rounded(np.array([[1.0, -127.0], [127.0, 0.2]], np.float32), "int8")
        >>> table.weights.tolist(), table.scale.tolist()
        ([[129, 1], [255, 128]], [1.0, 1.0])
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPES)}.")
    _require_finite(weights)
    return _in_halves(weights) if dtype == "float16" else _in_bytes(weights)


def _in_halves(weights: Floats) -> RoundedTable:
    halves = weights.astype(np.float16)
    empty = np.flatnonzero(~halves.any(axis=1))
    column = np.abs(weights[empty]).argmax(axis=1)
    unit = np.finfo(np.float16).smallest_subnormal
    halves[empty, column] = np.where(weights[empty, column] > 0, unit, -unit)
    return RoundedTable(
        weights=halves,
        scale=None,
        largest_error=float(np.abs(halves - weights).max()),
        raised_rows=len(empty),
    )


def _in_bytes(weights: Floats) -> RoundedTable:
    scale = np.abs(weights).max(axis=0) / np.float32(_LARGEST_BYTE)
    scale[scale == 0] = 1.0
    whole = np.rint(weights / scale)
    return RoundedTable(
        weights=(whole + ZERO_POINT).astype(np.uint8),
        scale=scale,
        largest_error=float(np.abs(whole * scale - weights).max()),
        raised_rows=0,
    )


def seal_table(
    out: Path, table: TableCheckpoint, release: Release, *, dtype: str = "float16"
) -> Path:
    """Returns the folder of the artifact that was made from a table."""
    atomic_files.require_free(out)
    _require_complete(table)
    others, reference = differences(table.weights, table.tags)
    written = rounded(others, dtype)
    classifies = class_scoring.is_classifier(table.tags, table.scheme.level, table.transitions)
    task = classifier.TASK if classifies else TASK
    certificate = release.certificate(table.claim, task=task, format=FORMAT, entry=ENTRY)
    step = _step(table, written, dtype, reference)
    certificate = dataclasses.replace(certificate, derivation=(*certificate.derivation, step))
    notes = sealing.notes(certificate)
    tensors = {WEIGHTS: written.weights, TRANSITIONS: table.transitions.astype(np.float32)}
    if written.scale is not None:
        tensors[SCALE] = written.scale
    labels = label_set(table.tags, table.scheme.level)
    names = {"labels": list(table.tags)}
    if not classifies:
        names = {"fields": list(labels.fields), "tags": list(table.tags)}
    contents = {
        ENTRY: _packed(tensors, notes),
        "hushdoc.json": sealing.manifest(
            certificate,
            preprocessing=_preprocessing(table, written, dtype, reference, classifies=classifies),
        ),
        LABELS_FILE: sealing.dump(names),
    }
    if table.clusters is not None:
        contents[CLUSTERS_FILE] = _packed(
            {HASHES: table.clusters.hashes, IDS: table.clusters.ids}, notes
        )
    return sealing.seal(out, contents, certificate, labels=labels, key=release.key)


def _preprocessing(
    table: TableCheckpoint,
    written: RoundedTable,
    dtype: str,
    reference: int | None,
    *,
    classifies: bool,
) -> dict[str, Any]:
    """Returns what the manifest declares about a table's rows, columns and features."""
    rule = {}
    if classifies:
        # Computed from what is released alone, as `_step` declares for all that is done here.
        readable = HashedTable(
            weights=written.weights,
            scale=written.scale,
            transitions=table.transitions.astype(np.float64),
            reference=reference,
        )
        rule = {class_scoring.KEY: class_scoring.ClassConfidence.of(readable).to_dict()}
    return {
        TABLE_KEY: {
            "tensor": WEIGHTS,
            "rows": table.scheme.rows,
            "columns": len(table.tags),
            "reference": reference,
        },
        "features": table.scheme.to_dict(),
        "segmentation": segmentation.VERSION,
        "weights": dtype,
        **rule,
    }


def _step(
    table: TableCheckpoint, written: RoundedTable, dtype: str, reference: int | None
) -> dict[str, Any]:
    """Returns what was done to the table here."""
    digest = hashlib.sha256(np.ascontiguousarray(table.weights).data).hexdigest()
    return {
        "step": "round-table",
        # The scale of bytes is that of the complete table, which is itself what is released.
        "dataDependent": False,
        "from": f"sha256:{digest}",
        "weights": dtype,
        "leftOut": None if reference is None else table.tags[reference],
        "largestError": written.largest_error,
        "raisedRows": written.raised_rows,
    }


def _packed(tensors: Mapping[str, npt.NDArray[Any]], notes: Mapping[str, str]) -> bytes:
    with needs_extra("safetensors", "export"):
        from safetensors.numpy import save
    content: bytes = save(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()},
        metadata=dict(notes),
    )
    return content


def _require_finite(weights: Floats) -> None:
    limit = float(np.finfo(np.float16).max)
    strange = int(np.count_nonzero(~np.isfinite(weights)))
    if strange or np.abs(weights).max(initial=0) > limit:
        raise CheckpointError(
            f"{strange} weights of the table are NaN or infinite and the largest others, or their "
            f"differences, are {np.nanmax(np.abs(weights), initial=0):g}; expected finite weights "
            f"of at most {limit:g}. Fill every row before sealing."
        )


def _require_complete(table: TableCheckpoint) -> None:
    """Refuses rows of zeros, which show what documents had, where any guarantee is declared."""
    _require_finite(table.weights)
    if all(guarantee.kind == "none" for guarantee in table.claim.guarantees):
        return
    empty = int(np.count_nonzero(~table.weights.any(axis=1)))
    if empty:
        raise CheckpointError(
            f"{empty} of {len(table.weights)} rows of the table are all zero; expected that every "
            "row is filled. Fill them before sealing."
        )
