"""What an embedding model answers: vectors, and what each of them stands for.

Contract: as with `hushdoc.runtime.extraction`, the keys of `to_dict` are versioned by
`SCHEMA_VERSION` and never given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.provenance import Source
from hushdoc.runtime.extraction import Answer, Timings

SCHEMA_VERSION = 2

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Embedding(Answer):
    """Vectors of one document, or of some texts.

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
    timings: Timings = field(repr=False)
    source: Source | None = None

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
