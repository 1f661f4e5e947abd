"""HashedTable: the weights of hashed features, read from an artifact and added up for items."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import ArtifactError
from hushdoc.hashing import Clusters, Features, FeatureScheme

Scores = npt.NDArray[np.float64]

TRANSITIONS, SCALE = "transitions", "scale"
"""Tensors beside the weights, whose name the manifest states."""

HASHES, IDS = "hashes", "ids"
"""Tensors of a file of clusters."""

_GATHERED_BYTES = 1 << 18
"""Rows of the table that are added up at once: they stay in the cache of one core."""

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "i1", "U16": "<u2", "U32": "<u4"}


@dataclass(frozen=True, kw_only=True, eq=False)
class HashedTable:
    """What a conditional random field has learned, addressed by hashes.

    Attributes:
        weights: Shape [rows, labels]; floats, or whole numbers that `scale` makes weights of.
        scale: Shape [labels]; None for floats.
        transitions: Shape [labels, labels], from a label to the next.
    """

    weights: npt.NDArray[Any]
    scale: npt.NDArray[np.float32] | None = None
    transitions: Scores

    def __post_init__(self) -> None:
        """Refuses parts that do not fit one another."""
        labels = self.weights.shape[-1]
        scale = (labels,) if self.scale is None else self.scale.shape
        if (
            self.weights.ndim != 2
            or scale != (labels,)
            or self.transitions.shape != (labels,) * 2
            or self.weights.dtype.kind != ("f" if self.scale is None else "i")
            or (self.scale is not None and not (self.scale > 0).all())
        ):
            raise ArtifactError(
                f"A table has weights {self.weights.shape} of {self.weights.dtype}, a scale "
                f"{scale} and transitions {self.transitions.shape}; expected [rows, labels], "
                "[labels] (above 0, for whole numbers alone) and [labels, labels]. Export it again."
            )


def read_table(content: memoryview, name: str) -> HashedTable:
    """Returns the table in a safetensors file that was checked when its artifact was opened.

    Args:
        content: The file; the table stays where it is.
        name: The weights' tensor, as the manifest states it.

    Raises:
        ArtifactError: A part is missing, or they do not fit one another.
    """
    tensors = _tensors(content)
    if not {name, TRANSITIONS} <= tensors.keys():
        raise ArtifactError(
            f"The table's file holds {', '.join(sorted(tensors))}; expected '{name}' and "
            f"'{TRANSITIONS}'. Export the artifact again."
        )
    return HashedTable(
        weights=tensors[name],
        scale=tensors.get(SCALE),
        transitions=tensors[TRANSITIONS].astype(np.float64),
    )


def read_clusters(content: memoryview, scheme: FeatureScheme) -> Clusters:
    """Returns the clusters in a safetensors file that was checked when its artifact was opened.

    Raises:
        ArtifactError: A part is missing, or they are not the scheme's.
    """
    tensors = _tensors(content)
    try:
        clusters = Clusters(hashes=tensors[HASHES], ids=tensors[IDS])
        if len(clusters.ids) and int(clusters.ids.max()) >= scheme.clusters:
            raise ValueError(f"there is a cluster {clusters.ids.max()} of {scheme.clusters}")
    except (KeyError, ValueError) as error:
        raise ArtifactError(
            f"The clusters of words can't be read: {error}. Export the artifact again."
        ) from error
    return clusters


def item_scores(features: Features, table: HashedTable) -> Scores:
    """Returns for every item the sum of its features' weights, shape [items, labels].

    Args:
        features: Rows of the table.
        table: Its weights; they are summed in double precision, or exactly if they are whole.
    """
    weights = np.ascontiguousarray(table.weights)
    rows, labels = weights.shape
    # One number for each row is gathered several times faster than a row of numbers.
    width = labels * weights.itemsize
    whole = weights.view({1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(width, f"V{width}"))[:, 0]
    if len(features.indices) and int(features.indices.max()) >= rows:
        raise ValueError(f"A feature is in row {features.indices.max()} of {rows}.")
    exact = np.int64 if weights.dtype.kind == "i" else np.float64
    sums = np.zeros((features.num_items, labels), dtype=exact)
    filled = np.flatnonzero(np.diff(features.offsets))
    starts = features.offsets[filled]
    for first, last in _runs(starts, len(features.indices), _GATHERED_BYTES // width):
        stop = starts[last] if last < len(starts) else len(features.indices)
        taken = np.take(whole, features.indices[starts[first] : stop], mode="clip")
        gathered = taken.view(weights.dtype).reshape(-1, labels)
        sums[filled[first:last]] = np.add.reduceat(
            gathered, starts[first:last] - starts[first], axis=0, dtype=exact
        )
    scale = 1.0 if table.scale is None else table.scale.astype(np.float64)
    return np.multiply(sums, scale, dtype=np.float64)


def _runs(starts: npt.NDArray[np.int64], total: int, most: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of items that have at most so many features together, or are one item."""
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        last = len(starts) if total - starts[first] <= most else max(first + 1, last)
        yield first, last
        first = last


def _tensors(content: memoryview) -> Mapping[str, npt.NDArray[Any]]:
    """Returns the arrays of a safetensors file that was checked when its artifact was opened."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:start]))
    header.pop("__metadata__", None)
    unknown = {item["dtype"] for item in header.values()} - _DTYPES.keys()
    if unknown:
        raise ArtifactError(
            f"A table's file holds tensors of {', '.join(sorted(unknown))}; this version reads "
            f"{', '.join(_DTYPES)}. Install the version of hushdoc that wrote it."
        )
    return {
        name: np.frombuffer(
            content[start:][slice(*item["data_offsets"])], _DTYPES[item["dtype"]]
        ).reshape(item["shape"])
        for name, item in header.items()
    }
