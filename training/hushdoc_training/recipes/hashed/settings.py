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
TRAVEL = 750.0
"""Learning rate times steps of the algorithm "batch"."""


@dataclass(frozen=True, kw_only=True)
class CRFSettings:
    """How a table is fitted and filled.

    Attributes:
        algorithm: One of ALGORITHMS: CRFsuite's, or "batch", which a hardened fill of tokens alone
            is best made from.
        iterations: Passes over the documents. None stands for fitting.ITERATIONS, and of "batch"
            for noiseless_fitting.STEPS.
        aggressiveness: Of the algorithm "pa": how far one sentence may move the weights (CRFsuite's
            c). Smaller steps keep less of single documents.
        fill: One of claims.FILLS.
        family: Of the published fill: one of laws.FAMILIES.
        noise: Of the hardened fill: spreads of noise on every row. None stands for filling.NOISE,
            and of "batch" for SCALED_NOISE.
        batch: Of the algorithm "batch": how its training goes on.
        unseen: Of the algorithm "batch": scale of rows that the public sentences do not use.
        top_features_per_label: Of the algorithm "batch": how many rows keep a weight for each
            label; None for all.
        min_document_frequency: Features in fewer documents are dropped before training. None
            stands for HARDENED_DOCUMENTS where the fill is "hardened", and for 1 elsewhere.
        norm: Of the Gaussian fill: the length to which rows are shortened, a public constant.
        noise_multiplier: Of the Gaussian fill: the noise divided by `norm`.
    """

    algorithm: str = "pa"
    iterations: int | None = None
    aggressiveness: float = 1.0
    fill: str = "hardened"
    family: str = "normals"
    noise: float | None = None
    batch: Settings = Settings(travel=TRAVEL)
    unseen: float = private_fitting.UNSEEN
    top_features_per_label: int | None = noiseless_fitting.LOUDEST
    min_document_frequency: int | None = None
    norm: float = 1.0
    noise_multiplier: float = 1.0

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
        if self.algorithm == BATCH and self.fill not in ("hardened", "none"):
            raise ValueError(
                f"fill is {self.fill!r}; the algorithm 'batch' goes with 'hardened' or 'none', as "
                "its rows have scales."
            )
        if self.top_features_per_label is not None and self.top_features_per_label < 1:
            raise ValueError(
                f"top_features_per_label is {self.top_features_per_label}; expected at least 1."
            )
        if not 0 < self.aggressiveness < math.inf:
            raise ValueError(f"aggressiveness is {self.aggressiveness}; expected a number above 0.")
        if self.aggressiveness != 1 and self.algorithm != "pa":
            raise ValueError(
                f"aggressiveness is of 'pa' alone; {self.algorithm!r} has no such step."
            )

    @property
    def passes(self) -> int:
        """The number of passes over the documents."""
        if self.iterations is not None:
            return self.iterations
        return noiseless_fitting.STEPS if self.algorithm == BATCH else fitting.ITERATIONS

    @property
    def spreads(self) -> float:
        """The noise of the hardened fill, in spreads."""
        if self.noise is not None:
            return self.noise
        return filling.SCALED_NOISE if self.algorithm == BATCH else filling.NOISE

    def stated(self) -> dict[str, Any]:
        """Returns the settings as they were used, for the certificate."""
        used = {
            "iterations": self.passes,
            "noise": self.spreads,
            "min_document_frequency": self.threshold,
        }
        made = asdict(self) | used
        if self.algorithm != BATCH:
            del made["batch"], made["unseen"], made["top_features_per_label"]
        return made

    @property
    def threshold(self) -> int:
        """The number of documents that a feature must occur in."""
        if self.min_document_frequency is not None:
            return self.min_document_frequency
        return filling.HARDENED_DOCUMENTS if self.fill == "hardened" else 1
