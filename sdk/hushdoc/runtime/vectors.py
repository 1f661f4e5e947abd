"""What an embedding model answers: vectors, and what each of them stands for.

Contract: as with `hushdoc.runtime.extraction`, the keys of `to_dict` are versioned by
`SCHEMA_VERSION` and never given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.provenance import Source
from hushdoc.runtime.extraction import Answer, Timings

SCHEMA_VERSION = 2

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Embedding(Answer):
    """Vectors of one document, or of some texts; two are equal when all but their timings are.

    Attributes:
        document_id: The document's id; None for texts.
        level: "page", "field", "document" or "text": what each vector stands for.
        vectors: Shape [items, dimensions], read-only; each row has length one, or is all zero
            where there was nothing to read.
        pages: The page of each row, from 0; None for texts and whole documents.
        labels: The field's label of each row; None at other levels.
        coverage: Share of each row's words that the model read in full, from 0 to 1; 1 where there
            is no word.
        num_windows: How many windows each row was read in.
        warnings: What the caller should know about this answer, in words.
        timings: Where the time went.
        source: Where the words came from, as the document says; None for texts, and where nobody
            read the document.
    """

    document_id: str | None
    level: str
    vectors: Vectors
    pages: tuple[int | None, ...]
    labels: tuple[str | None, ...]
    coverage: tuple[float, ...]
    num_windows: tuple[int, ...]
    warnings: tuple[str, ...]
    timings: Timings
    source: Source | None = None

    def __eq__(self, other: object) -> bool:
        """Returns whether all but the timings are equal, vectors number by number."""
        if not isinstance(other, Embedding):
            return NotImplemented
        return self._but_vectors() == other._but_vectors() and np.array_equal(
            self.vectors, other.vectors
        )

    def __hash__(self) -> int:
        """Returns a hash that equal embeddings share."""
        return hash(self._but_vectors())

    def __repr__(self) -> str:
        """Returns what the vectors are of, and how many; not their numbers."""
        return (
            f"Embedding(document_id={self.document_id!r}, level={self.level!r}, "
            f"vectors=<{' x '.join(map(str, self.vectors.shape))} {self.vectors.dtype}>, "
            f"coverage={min(self.coverage, default=1.0):g}, warnings={len(self.warnings)})"
        )

    def _but_vectors(self) -> tuple[object, ...]:
        return tuple(
            getattr(self, item.name)
            for item in fields(self)
            if item.name not in ("vectors", "timings")
        )

    @property
    def vector(self) -> Vectors:
        """The only vector, shape [dimensions].

        Raises:
            ValueError: There is not exactly one.
        """
        if len(self.vectors) != 1:
            raise ValueError(
                f"There are {len(self.vectors)} vectors, expected one. Use `vectors`, or ask for "
                "level='document'."
            )
        only: Vectors = self.vectors[0]
        return only

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "document_id": self.document_id,
            "level": self.level,
            "items": [
                {
                    "page": page,
                    "label": label,
                    "coverage": coverage,
                    "num_windows": number,
                    "vector": [float(value) for value in vector],
                }
                for page, label, coverage, number, vector in zip(
                    self.pages,
                    self.labels,
                    self.coverage,
                    self.num_windows,
                    self.vectors,
                    strict=True,
                )
            ],
            "warnings": list(self.warnings),
            "source": None if self.source is None else self.source.to_dict(),
            "timings": self.timings.to_dict(),
        }
