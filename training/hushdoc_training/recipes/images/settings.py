"""Settings of classifiers of images that are not their privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushdoc import arguments

OPTIMIZERS = ("adamw", "sgd")
"""What steps without privacy: AdamW, or SGD with momentum .9 as in DP-DocLDM."""


@dataclass(frozen=True, kw_only=True)
class PlainSettings:
    """Training without privacy, by default as DP-DocLDM trains its classifiers, but for AdamW.

    Attributes:
        epochs: Passes over the documents.
        batch_size: Pages in a step.
        learning_rate: The largest, at the first step; it goes down by half a cosine.
        optimizer: One of OPTIMIZERS.
        mixup: Parameter of mixup's Beta distribution; 0 leaves it out.
        cutmix: That of CutMix.
        dropout: Probability before the output layer.
        seed: Of order, mixing and fresh weights; no secret.
    """

    epochs: float = 20.0
    batch_size: int = 32
    learning_rate: float = 2e-3
    optimizer: str = "adamw"
    mixup: float = 0.8
    cutmix: float = 1.0
    dropout: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuses numbers that nothing can be trained with."""
        arguments.integer(self.batch_size, what="batch_size")
        arguments.choice(self.optimizer, OPTIMIZERS, what="optimizer")
        for name in ("epochs", "learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected a number above 0.")
        for name in ("mixup", "cutmix"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected a number from 0.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout!r}; expected a share below 1.")
