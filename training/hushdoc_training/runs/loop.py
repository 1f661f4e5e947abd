"""The training loop: steps, charges, interrupts, resumable state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hushdoc.errors import CheckpointError
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.runs import state
from hushdoc_training.runs.run_folder import SETTINGS, STEPS, Run
from hushdoc_training.runs.step_log import Progress, StepLog, last_charge, plot

SAVE_EVERY_SECONDS = 120.0

StepFunction = Callable[[int], float | None]
"""Charges step number n (from 1) in the run's log, takes it and returns its mean loss; None for a
step without records."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the loop ended.

    Attributes:
        charged: Steps that were charged to the budget.
        interrupted: Whether it stopped early; the run folder can be resumed.
    """

    charged: int
    interrupted: bool


def run_steps(
    run: Run,
    log: StepLog,
    *,
    steps: int,
    model: TokenClassifier,
    optimizer: torch.optim.Optimizer,
    step: StepFunction,
    epsilon_after: Callable[[int], float] | None,
    title: str,
    already_charged: int = 0,
    quiet: bool = False,
) -> Outcome:
    """Runs the steps that are not charged yet.

    Args:
        run: The run folder.
        log: Its log, in which every step charges itself.
        steps: Steps in all; a resumed run never exceeds them, lost ones included.
        model: Saved and restored with the optimizer.
        optimizer: The plain torch optimizer.
        step: Charges and takes one step.
        epsilon_after: Epsilon after that many steps, None where nothing is promised.
        title: For the plot.
        already_charged: What a ledger holds; the log may lack the last of it after a crash.
        quiet: Show no progress.

    Returns:
        How it ended. On Ctrl-C the step under way is finished and saved first.

    Raises:
        CheckpointError: The saved state can't be read, or charges are lost.
        OutputWriteError: The disk is full; the last saved state stays.
        PrivacyError: Another process trains in the folder.
    """
    # Whoever trains here meanwhile would take steps that are charged once a second time.
    with state.held(run.folder / SETTINGS), state.interrupts() as interrupted:
        log.reread()
        restored = state.restore(run.folder, model, optimizer)
        charged = max(log.charged, last_charge(log.entries), already_charged)
        if epsilon_after is None:  # nothing was spent, and nobody waited for the log's last lines
            charged = max(charged, restored)
        _require_resumable(run, steps, charged=charged, restored=restored)
        progress = Progress(steps, epsilon_after=epsilon_after, quiet=quiet)
        saved_at = time.monotonic()
        while charged < steps and not interrupted():
            charged += 1
            loss = step(charged)
            if log.entries[-1] != {"charge": charged}:
                raise ValueError(f"step {charged} was taken without a charge in the run's log.")
            spent = progress.show(charged, loss=float("nan") if loss is None else loss)
            log.finish(charged, loss=loss, epsilon=spent)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                state.save(run.folder, charged, model, optimizer)
                saved_at = time.monotonic()
        progress.close()
        state.save(run.folder, charged, model, optimizer)
    plot(run.folder / "training.png", log.entries, title=title)
    return Outcome(charged=charged, interrupted=charged < steps)


def _require_resumable(run: Run, steps: int, *, charged: int, restored: int) -> None:
    if restored > charged:
        raise CheckpointError(
            f"The run in '{run.folder}' saved step {restored}, and its log '{STEPS}' charges "
            f"{charged}: charges are lost. Restore the log, or start a new run in another folder; "
            "what this one spent stays spent."
        )
    if charged >= steps and not restored:
        raise CheckpointError(
            f"All {steps} steps of the run in '{run.folder}' are charged and no state was saved, "
            "so there is nothing to finish. Start a new run in another folder; what this one "
            "spent stays spent."
        )
