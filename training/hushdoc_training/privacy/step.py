"""Step: what one private step saw."""

from __future__ import annotations

from dataclasses import dataclass, field

from hushdoc_training.private_view import DRAWN, LOSSES, NONFINITE, PrivateView


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """A step that was taken. All without noise is private: reading it is noted in the view.

    Attributes:
        number: From 1.
        view: Notes what is read.
        noisy_loss: The mean loss with noise, which the plan accounts for; None unless asked for.
    """

    number: int
    view: PrivateView = field(repr=False)
    noisy_loss: float | None = None
    _drawn: int = field(repr=False)
    _losses: tuple[float, ...] = field(repr=False)
    _nonfinite: int = field(repr=False)

    @property
    def drawn(self) -> int:
        """Records that sampling drew, over all processes."""
        self.view.note(DRAWN)
        return self._drawn

    @property
    def losses(self) -> tuple[float, ...]:
        """Losses of the drawn records that this process computed."""
        self.view.note(LOSSES)
        return self._losses

    @property
    def loss(self) -> float | None:
        """The mean of these losses; None where no record was drawn."""
        losses = self.losses
        return sum(losses) / len(losses) if losses else None

    @property
    def nonfinite(self) -> int:
        """Among the same, records whose gradient was not finite and counted as zero."""
        self.view.note(NONFINITE)
        return self._nonfinite
