"""How a table of hashed features is fitted and filled."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hushdoc_training.crf import (
    claims,
    distributions,
    filling,
    fitting,
    noiseless_fitting,
    private_fitting,
)
from hushdoc_training.crf.private_fitting import Settings

BATCH = "batch"
"""Steps over all documents at once, each document's gradient clipped, rows scaled by how rare
they are in public text, and few rows left a weight: `noiseless_fitting`."""

ALGORITHMS = (*fitting.ALGORITHMS, BATCH)
TOTAL_LEARNING_RATE = 750.0
"""Learning rate times steps of the algorithm "batch"."""


@dataclass(frozen=True, kw_only=True)
class CRFSettings:
    """How a table is fitted and filled.

    A noisy fill of tokens alone is best made from the algorithm "batch", which alone reads `batch`,
    `unseen_scale` and `top_features_per_label` (how many rows keep a weight for each label; None
    for all). Elsewhere None stands for a default: `fitting.ITERATIONS`, of "batch"
    `noiseless_fitting.STEPS`; `filling.NOISE`, of "batch" SCALED_NOISE; NOISY_FILL_DOCUMENTS, or 1
    where the fill is not "noisy-fill".
    """

    algorithm: str = "pa"  # one of ALGORITHMS
    iterations: int | None = None  # passes over the documents
    c: float = 1.0  # of "pa": how far a sentence may move weights; less keeps less of documents
    fill: str = "noisy-fill"  # one of claims.FILLS
    family: str = "normals"  # of the paper's fill: one of distributions.FAMILIES
    noise: float | None = None  # of the noisy fill: spreads of noise on every row
    batch: Settings = Settings(total_learning_rate=TOTAL_LEARNING_RATE)
    unseen_scale: float = private_fitting.UNSEEN_SCALE
    top_features_per_label: int | None = noiseless_fitting.TOP_FEATURES_PER_LABEL
    min_document_frequency: int | None = None  # features in fewer are dropped

    def __post_init__(self) -> None:
        """Refuses words that are not known."""
        for name, known in (
            ("algorithm", ALGORITHMS),
            ("fill", claims.FILLS),
            ("family", distributions.FAMILIES),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}."
                )
        if self.algorithm == BATCH and self.fill not in ("noisy-fill", "none"):
            raise ValueError(
                f"fill is {self.fill!r}; the algorithm 'batch' goes with 'noisy-fill' or 'none', "
                "as its rows have scales."
            )
        if self.top_features_per_label is not None and self.top_features_per_label < 1:
            raise ValueError(
                f"top_features_per_label is {self.top_features_per_label}; expected at least 1."
            )
        if not 0 < self.c < math.inf:
            raise ValueError(f"c is {self.c}; expected a number above 0.")
        if self.c != 1 and self.algorithm != "pa":
            raise ValueError(f"c is of 'pa' alone; {self.algorithm!r} has no such step.")

    @property
    def passes(self) -> int:
        """The number of passes over the documents."""
        if self.iterations is not None:
            return self.iterations
        return noiseless_fitting.STEPS if self.algorithm == BATCH else fitting.ITERATIONS

    @property
    def spreads(self) -> float:
        """The noise of the noisy fill, in spreads."""
        if self.noise is not None:
            return self.noise
        return filling.SCALED_NOISE if self.algorithm == BATCH else filling.NOISE

    def reported(self) -> dict[str, Any]:
        """Returns the settings as they were used, for the certificate."""
        used = {
            "iterations": self.passes,
            "noise": self.spreads,
            "min_document_frequency": self.threshold,
        }
        made = asdict(self) | used
        if self.algorithm != BATCH:
            del made["batch"], made["unseen_scale"], made["top_features_per_label"]
        return made

    @property
    def threshold(self) -> int:
        """The number of documents that a feature must occur in."""
        if self.min_document_frequency is not None:
            return self.min_document_frequency
        return filling.NOISY_FILL_DOCUMENTS if self.fill == "noisy-fill" else 1
