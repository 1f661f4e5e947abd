"""Whole steps over a logical batch of several physical ones: private ones, and normal ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dp_workloads import Workload, adamw

if TYPE_CHECKING:
    from torch import nn

LOGICAL = (1, 2, 4)
"""Physical batches in the logical batches whose whole steps are timed, on the first workload."""


def accumulating_step(work: Workload) -> Callable[[int], None]:
    """Returns a normal step over some physical batches."""
    optimizer = adamw(work.model)

    def step(batches: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(batches):
            (work.losses().mean() / batches).backward()
        optimizer.step()

    return step


def private_step(work: Workload) -> tuple[Callable[[int], None], nn.Module]:
    """Returns a step of private training over some physical batches, and the model."""
    import numpy as np

    from hushdoc_training.privacy.engine import PrivateTraining
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.randomness.secret_stream import SecretStream

    drawn = 0

    class SetDraws:
        """Draws the first records, as many as the step wants, so that batches are full."""

        def uniforms(self, count: int) -> np.ndarray:
            return np.where(np.arange(count) < drawn, 0.0, 1.0)

    class Timed(PrivateTraining):
        """Nothing may be claimed of it: its draws are known."""

        def _streams(self) -> tuple[SetDraws, SecretStream]:
            return SetDraws(), SecretStream()

    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=0.5, steps=100, expected_records=work.rows, accountant="rdp"
    )
    training = Timed(
        plan,
        work.model,
        adamw(work.model),
        records=[[row] for _ in range(max(LOGICAL)) for row in range(work.rows)],
        losses=work.losses_of,
        max_examples=work.rows,
    )

    def step(batches: int) -> None:
        nonlocal drawn
        drawn = batches * work.rows
        assert training.step().drawn == drawn

    return step, work.model
