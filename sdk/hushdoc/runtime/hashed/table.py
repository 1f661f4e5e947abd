"""HashedTable: the weights of hashed features, read from an artifact and added up for items."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import ArtifactError
from hushdoc.hashing import Clusters, Features, FeatureScheme, Lookup

Scores = npt.NDArray[np.float64]
Sums = npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[np.float64]

TRANSITIONS, SCALE = "transitions", "scale"
"""Tensors beside the weights, whose name the manifest declares."""

HASHES, IDS = "hashes", "ids"
"""Tensors of a file of clusters."""

ZERO_POINT = 128
"""The byte that stands for the weight 0. The byte 0 stands for nothing: its row is empty."""

_GATHERED_BYTES = 1 << 18
"""Rows of the table that are added up at once: they stay in the cache of one core."""

_FETCHED_BYTES = 1 << 23
"""A larger table is never read once from end to end: it stays in no cache."""

_LINE_BYTES = 64
"""What a processor fetches at once."""

_SPREAD_ROWS = 1 << 14
"""Rows whose spread is measured at once."""

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "U8": "u1", "U16": "<u2", "U32": "<u4"}


@dataclass(frozen=True, kw_only=True, eq=False)
class HashedTable:
    """What a conditional random field has learned, addressed by hashes.

    Adding one number to all weights of a row changes no answer. So a table may leave out the column
    of one label, the reference, and hold by how much the others' weights exceed its own.

    `weights` [rows, columns] are floats, or bytes, which the column's `scale` times what they
    exceed ZERO_POINT by makes weights of; `transitions` [labels, labels] go from a label to the
    next.
    """

    weights: npt.NDArray[Any]
    scale: npt.NDArray[np.float32] | None = None
    transitions: Scores
    reference: int | None = None

    def __post_init__(self) -> None:
        """Refuses parts that do not fit one another."""
        columns, dtype = self.weights.shape[-1], self.weights.dtype
        dtype_fits = dtype.kind == "f" if self.scale is None else dtype == np.uint8
        labels = columns + (self.reference is not None)
        scale = (columns,) if self.scale is None else self.scale.shape
        if (
            self.weights.ndim != 2
            or scale != (columns,)
            or self.transitions.shape != (labels,) * 2
            or not dtype_fits
            or (self.scale is not None and not (self.scale > 0).all())
            or (self.reference is not None and not (columns and 0 <= self.reference < labels))
        ):
            raise ArtifactError(
                f"A table has weights {self.weights.shape} of {self.weights.dtype}, a scale "
                f"{scale}, transitions {self.transitions.shape} and the reference "
                f"{self.reference}; expected [rows, labels], [labels] (above 0, for bytes alone), "
                "[labels, labels], and with one of the labels as reference one column and one "
                "scale less. Export it again."
            )


def read_table(content: memoryview, name: str, reference: int | None = None) -> HashedTable:
    """Returns the table in a safetensors file that was checked when its artifact was opened.

    The table stays in `content`; the manifest declares the weights' tensor `name` and the label
    that has no column, `reference`. ArtifactError where a part is missing or does not fit.
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
        reference=reference,
    )


def read_clusters(content: memoryview, scheme: FeatureScheme) -> Clusters:
    """Returns the clusters in such a file; ArtifactError where they are not the scheme's."""
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


def item_scores(found: Features, table: HashedTable) -> Scores:
    """Returns for every item the sum of its features' weights, shape [items, labels].

    Weights are summed in double precision, or exactly if they are bytes.
    """
    exact = _exact(table, len(found.indices))
    sums: Sums = np.zeros((found.num_items, table.weights.shape[1]), dtype=exact)
    _add_item_by_item(sums, found, table.weights)
    return _scores(sums, table)


def lookup_scores(found: Lookup, table: HashedTable) -> Scores:
    """Returns the same of what is looked up for some items; rows beyond the table mean nothing."""
    columns = table.weights.shape[1]
    _fetch(table.weights, found.rows.size)
    if found.starts is None or found.items is None:
        # As many weights as templates: of bytes, their sums have 16 bits.
        exact: Any = np.float64 if table.scale is None else np.int16
        totals = np.zeros((found.rows.shape[1], columns), dtype=exact)
        for rows, present in zip(found.rows, found.present, strict=True):
            totals += _gathered(rows, table.weights, present)
        return _scores(totals[: found.num_items], table)
    numbers = _gathered(found.rows, table.weights, found.present)
    sums = np.zeros((found.num_items, columns), dtype=_exact(table, len(numbers)))
    edges = np.concatenate([found.starts, [len(numbers)]])
    filled = np.flatnonzero(edges[1:] != edges[:-1])
    sums[found.items[filled]] = _sums_of_runs(numbers, found.starts[filled], sums.dtype)
    return _scores(sums, table)


def spread(table: HashedTable) -> float:
    """Returns the root mean square of the difference between two labels' weights in one row."""
    labels, total = len(table.transitions), 0.0
    scale = 1.0 if table.scale is None else table.scale.astype(np.float64)
    for first in range(0, len(table.weights), _SPREAD_ROWS):
        part = np.array(table.weights[first : first + _SPREAD_ROWS])
        rows = _numbers(part, part.shape[1]) * scale
        total += float((rows**2).sum() - (rows.sum(axis=1) ** 2).sum() / labels)
    return math.sqrt(max(0.0, 2 * total / ((labels - 1) * max(1, len(table.weights)))))


def _exact(table: HashedTable, num_rows: int) -> Any:
    """Returns the type that sums of so many of the table's rows have."""
    if table.scale is None:
        return np.float64
    return np.int32 if num_rows < 1 << 24 else np.int64  # numbers of a byte


def _scores(sums: npt.NDArray[Any], table: HashedTable) -> Scores:
    """Returns the scores of all labels by sums [items, columns]."""
    labels = len(table.transitions)
    scores = np.zeros((len(sums), labels))
    for column, label in enumerate(label for label in range(labels) if label != table.reference):
        scale = 1.0 if table.scale is None else float(table.scale[column])
        np.multiply(sums[:, column], scale, out=scores[:, label])
    return scores


def _add_item_by_item(sums: Sums, found: Features, weights: npt.NDArray[Any]) -> None:
    if len(found.indices) and int(found.indices.max()) >= len(weights):
        raise ValueError(f"A feature is in row {found.indices.max()} of {len(weights)}.")
    filled = np.flatnonzero(np.diff(found.offsets))
    starts = found.offsets[filled]
    most = _GATHERED_BYTES // (weights.shape[1] * weights.itemsize)
    for first, last in _runs(starts, len(found.indices), most):
        stop = starts[last] if last < len(starts) else len(found.indices)
        gathered = _gathered(found.indices[starts[first] : stop], weights)
        own = starts[first:last] - starts[first]
        sums[filled[first:last]] = _sums_of_runs(gathered, own, sums.dtype)


def _sums_of_runs(numbers: npt.NDArray[Any], starts: npt.NDArray[np.intp], dtype: Any) -> Sums:
    """Returns the sums of numbers [features, columns] from each start to the next one."""
    if numbers.shape[1] == 1:  # much faster than along one of two axes
        return np.add.reduceat(numbers[:, 0], starts, dtype=dtype)[:, None]
    return np.asarray(np.add.reduceat(numbers, starts, axis=0, dtype=dtype))


def _gathered(
    rows: npt.NDArray[Any], weights: npt.NDArray[Any], present: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[Any]:
    """Returns the numbers of some rows [rows, columns], 0 where they are not present."""
    whole = _whole_rows(np.ascontiguousarray(weights))
    taken = np.take(whole, rows, mode="clip")
    numbers = _numbers(taken.view(weights.dtype), weights.shape[1])
    if present is None:
        return numbers
    if numbers.dtype == np.int8 and taken.dtype.kind == "u":  # the same memory, a row at a time
        taken *= present.view(np.uint8).astype(taken.dtype, copy=False)
    else:
        numbers[~present] = 0
    return numbers


def _fetch(weights: npt.NDArray[Any], num_rows: int) -> None:
    """Brings a table into the cache where so many rows of it are read that most of it is needed.

    Read from end to end it comes several times as fast as by rows here and there.
    """
    if num_rows * _LINE_BYTES > weights.nbytes and weights.nbytes <= _FETCHED_BYTES:
        content = weights.reshape(-1).view(np.uint8)
        content[::_LINE_BYTES].max(initial=0)


def _whole_rows(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns one number for each row: it is gathered several times faster than a row of them."""
    width = weights.shape[1] * weights.itemsize
    return weights.view({1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(width, f"V{width}"))[:, 0]


def _numbers(weights: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    """Returns rows of doubles, or of what bytes exceed ZERO_POINT by; they may be written to."""
    if weights.dtype == np.uint8:
        weights ^= np.uint8(ZERO_POINT)
        return weights.view(np.int8).reshape(-1, columns)
    return weights.astype(np.float64).reshape(-1, columns)


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
