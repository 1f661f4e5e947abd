"""Fitting: a linear-chain conditional random field over hashed features, by CRFsuite.

CRFsuite (Okazaki 2007, through python-crfsuite) sees each row of the table as an attribute. It
keeps one weight for every pair of attribute and label that it saw together, unless it is zero; all
others are missing. What it learned is read back from its model file in the double precision that
is stored there: what python-crfsuite prints is rounded to six decimals.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import AnnotationError, OutputWriteError, needs_extra
from hushdoc.hashing import Features, FeatureScheme

ALGORITHMS = ("pa", "ap", "arow", "l2sgd", "lbfgs")
"""Passive-aggressive as in the paper, averaged perceptron, adaptive regularisation of weights, and
maximum likelihood by stochastic gradients or by L-BFGS."""

ITERATIONS = 30
"""Passes of the online algorithms and of l2sgd; steps of lbfgs."""

_FEATURE = np.dtype(
    [("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")], align=False
)
_STATE = 0
"""Kind of a weight between an attribute and a label; the others are transitions."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedTable:
    """What was learned, as it came out of training: not to be released.

    CRFsuite has a weight for each pair of a row and a label that occurred together, and leaves
    those that stay 0 out of its model file.
    """

    weights: npt.NDArray[np.float32]  # shape [rows, labels]; NaN where no weight was learned
    seen: npt.NDArray[np.bool_]  # shape [rows, labels]; which occurred together
    transitions: npt.NDArray[np.float32]  # from a label to the next; 0 where none was learned
    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64] | None = None  # in how many items each row occurs

    @property
    def genuine(self) -> npt.NDArray[np.bool_]:
        """Which rows have a weight that was learned."""
        return np.asarray((~np.isnan(self.weights)).any(axis=1))

    @property
    def realized(self) -> npt.NDArray[np.float32]:
        """The weights of all pairs that occurred, 0 where training changed nothing; NaN elsewhere.

        Example:
            >>> learned = np.array([[1.0, np.nan], [np.nan, np.nan]], np.float32)
            >>> seen = np.array([[True, True], [True, False]])
            >>> FittedTable(
            ...     weights=learned, seen=seen, transitions=np.eye(2, dtype=np.float32),
            ...     labels=("O", "clause")).realized.tolist()
            [[1.0, 0.0], [0.0, nan]]
        """
        return np.where(np.isnan(self.weights) & self.seen, np.float32(0), self.weights)

    def unfilled(self) -> npt.NDArray[np.float32]:
        """Returns the weights with zeros for missing ones: what CRFsuite itself decodes with."""
        return np.nan_to_num(self.weights, nan=0.0)


def fit(
    features: Features,
    labels: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],  # item where each sequence begins, and the last ends
    *,
    scheme: FeatureScheme,
    names: Sequence[str],
    algorithm: str = "pa",
    iterations: int = ITERATIONS,
    least_items: int = 1,
    settings: Mapping[str, float | int | bool] | None = None,  # more of CRFsuite's own parameters
) -> FittedTable:
    """Returns what CRFsuite learns from labelled sequences of items.

    Its online algorithms shuffle by the C library's generator, which goes on from fit to fit: two
    fits in one process differ a little. Rows in fewer than `least_items` items are dropped first;
    features share rows, so a rare one may stay in a row that is not: `frequency.frequent` drops
    features.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}; expected one of {', '.join(ALGORITHMS)}.")
    require_labels(features, labels, documents, names)
    counts = np.bincount(features.indices, minlength=scheme.rows)
    kept = counts >= least_items
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.crfsuite"
        trainer = _trainer(algorithm, {"max_iterations": iterations, **(settings or {})})
        for items, tags in _sequences(features, labels, documents, kept):
            trainer.append(items, tags)
        trainer.train(str(path))
        content = _whole(path)
    weights, transitions = stored(content, rows=scheme.rows, labels=len(names))
    return FittedTable(
        weights=weights.astype(np.float32),
        seen=occurrences(features, labels, rows=scheme.rows, columns=len(names)) & kept[:, None],
        transitions=np.nan_to_num(transitions).astype(np.float32),
        labels=tuple(names),
        counts=counts,
    )


def _whole(path: Path) -> bytes:
    """Returns the model that CRFsuite wrote, which says nothing where its disk is full."""
    content = path.read_bytes() if path.exists() else b""
    (size,) = struct.unpack_from("<I", content.ljust(8, b"\0"), 4)
    if not content or size != len(content):
        raise OutputWriteError(
            f"CRFsuite wrote {len(content)} bytes of its model to '{path.parent.parent}', expected "
            f"{size or 'more'}. Free some space there, or name another folder for temporary files "
            "by TMPDIR, and run the same command again."
        )
    return content


def occurrences(
    features: Features, labels: npt.NDArray[np.int64], *, rows: int, columns: int
) -> npt.NDArray[np.bool_]:
    """Returns which rows of a table occur in items of which label, shape [rows, columns]."""
    seen = np.zeros((rows, columns), dtype=bool)
    seen[features.indices, np.repeat(labels, np.diff(features.offsets))] = True
    return seen


def stored(
    content: bytes, *, rows: int, labels: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns weights and transitions of a CRFsuite model; NaN where it has none.

    Its attributes must be names_of_rows as rows, its labels as columns. The layout is that of
    crf1d_model.c and cqdb.c; another is a ValueError.
    """
    if content[:4] != b"lCRF" or content[8:12] != b"FOMC":
        raise ValueError(f"A CRFsuite model begins with {content[:12]!r}; expected lCRF and FOMC.")
    features_at, labels_at, attributes_at = struct.unpack_from("<3I", content, 28)
    _, _, count = struct.unpack_from("<4sII", content, features_at)
    found = np.frombuffer(content, _FEATURE, count, features_at + 12)
    columns = _names(content, labels_at)
    row_of = _names(content, attributes_at)
    weights = np.full((rows, labels), np.nan)
    transitions = np.full((labels, labels), np.nan)
    states, steps = found[found["kind"] == _STATE], found[found["kind"] != _STATE]
    weights[row_of[states["source"]], columns[states["target"]]] = states["weight"]
    transitions[columns[steps["source"]], columns[steps["target"]]] = steps["weight"]
    return weights, transitions


def _names(content: bytes, at: int) -> npt.NDArray[np.int64]:
    """Returns the numbers that a dictionary of the model file spells, by their place in it."""
    magic, _, _, _, count, table_at = struct.unpack_from("<4s5I", content, at)
    if magic != b"CQDB":
        raise ValueError(f"A dictionary of a CRFsuite model begins with {magic!r}.")
    names = np.zeros(count, dtype=np.int64)
    for place in np.frombuffer(content, "<u4", count, at + table_at).tolist():
        number, size = struct.unpack_from("<2I", content, at + place)
        names[number] = int(content[at + place + 8 : at + place + 7 + size])
    return names


def _trainer(algorithm: str, settings: Mapping[str, float | int | bool]) -> Any:
    with needs_extra("python-crfsuite", "crf"):
        import pycrfsuite
    return pycrfsuite.Trainer(algorithm=algorithm, params=dict(settings), verbose=False)


def _sequences(
    features: Features,
    labels: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    kept: npt.NDArray[np.bool_],
) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yields the attributes of every item of a sequence, and their labels."""
    names_of_rows = np.full(len(kept), None, dtype=object)
    names_of_rows[kept] = [str(row) for row in np.flatnonzero(kept).tolist()]
    for first, last in zip(documents[:-1].tolist(), documents[1:].tolist(), strict=True):
        if first == last:
            continue
        ends = features.offsets[first : last + 1]
        rows = features.indices[ends[0] : ends[-1]]
        there = kept[rows]
        places = np.concatenate([[0], np.cumsum(there)])[ends - ends[0]].tolist()
        words = names_of_rows[rows[there]].tolist()
        items = [words[start:stop] for start, stop in zip(places[:-1], places[1:], strict=True)]
        yield items, [str(label) for label in labels[first:last].tolist()]


def require_labels(
    features: Features,
    labels: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    names: Sequence[str],
) -> None:
    """Refuses labels from which nothing can be learned."""
    if len(labels) != features.num_items or documents[-1] != features.num_items:
        raise AnnotationError(
            f"There are {features.num_items} items, {len(labels)} labels and sequences up to item "
            f"{documents[-1]}; expected one label for each item. Label the documents again."
        )
    used = np.unique(labels)
    if len(used) and (used[0] < 0 or used[-1] >= len(names)):
        raise AnnotationError(
            f"Items have labels from {used[0]} to {used[-1]}; there are {len(names)} names. Name "
            "every label."
        )
    if len(used) < 2:
        found = f"all have the label '{names[used[0]]}'" if len(used) else "there is none"
        raise AnnotationError(
            f"Of {len(labels)} items {found}; expected items of at least two labels. Mark what the "
            "model shall find, or give more documents."
        )
