"""Step: what one private step saw."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a step saw. All of it is private: for the trainer's eyes only.

    Attributes:
        number: From 1.
        drawn: Records that sampling drew, over all processes.
        losses: Of the drawn records that this process computed.
        nonfinite: Among those, records whose gradient was not finite and counted as zero.
    """

    number: int
    drawn: int
    losses: tuple[float, ...]
    nonfinite: int

    @property
    def loss(self) -> float | None:
        """The mean loss; None where no record was drawn."""
        return sum(self.losses) / len(self.losses) if self.losses else None
