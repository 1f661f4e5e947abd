"""PrivateSteps: what a run needs of a private training, whichever mechanism its steps have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.metering import Meter
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.step import Step
from hushdoc_training.private_view import PrivateView
from hushdoc_training.receipt import Receipt


class PrivateSteps(Protocol):
    """A training by steps, each charged before its records are drawn; see `PrivateTraining`."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    view: PrivateView

    @property
    def plan(self) -> PrivacyPlan: ...  # noqa: D102
    @property
    def charged(self) -> int: ...  # noqa: D102
    @property
    def receipt(self) -> Receipt: ...  # noqa: D102
    @property
    def has_receipt(self) -> bool: ...  # noqa: D102
    @property
    def untrained_parameters(self) -> Mapping[str, nn.Parameter]: ...  # noqa: D102
    def step(self) -> Step: ...  # noqa: D102
    def resume(  # noqa: D102
        self, charged: int, *, restored: int | None = None, receipt: Receipt | None = None
    ) -> None: ...
    def require_kept(self) -> None: ...  # noqa: D102
    def fingerprint(self) -> str: ...  # noqa: D102
    def claim_details(self, name: str) -> claims.ClaimDetails: ...  # noqa: D102


class ReceiptKept:
    """The receipt of a training that may go on where an interrupted run ended."""

    def __init__(self, meter: Meter, view: PrivateView) -> None:
        """Begins with the start's weights, of which no step was taken."""
        self._meter, self._view = meter, view
        self._lost = 0  # steps in the weights that no receipt is there for

    def resume(self, restored: int, receipt: Receipt | None) -> None:
        """Goes on from weights after a step, with the receipt of how that came to be."""
        self._lost = 0 if receipt else restored
        if receipt is not None:
            self._meter.go_on(receipt)

    @property
    def exists(self) -> bool:
        """Whether a step was drawn, and how earlier ones were is known."""
        return not (self._lost or self._meter.is_empty)

    def receipt(self) -> Receipt:
        """Returns what was executed up to now, what an interrupted run left behind included.

        Raises:
            PrivacyError: No step was drawn, or the receipt of earlier ones is lost.
        """
        if self._lost:
            raise PrivacyError(
                f"The weights were resumed after step {self._lost} without the receipt of how that "
                "and earlier steps were executed, so nothing is certified of them. Resume by "
                "`PrivateRun`, which keeps it, or give `resume` the receipt.",
                code="NO_RECEIPT",
            )
        for what in self._view.unaccounted:
            self._meter.read(what)
        self._meter.declare("view", ((condition, "") for condition in self._view.assumes))
        return self._meter.receipt()
