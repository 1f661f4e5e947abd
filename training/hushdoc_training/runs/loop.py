"""The training loop: steps, Ctrl-C that waits for the step under way, states now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from hushdoc.arguments import counted
from hushdoc.errors import CheckpointError, HushdocError
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.runs import state
from hushdoc_training.runs.run_folder import CHECKPOINT, SETTINGS, STEPS, Run
from hushdoc_training.runs.step_log import StepLog, StepReport

SAVE_EVERY_SECONDS = 120.0

Agree = Callable[[int, bool, bool], tuple[bool, bool]]
"""Returns whether to stop and whether to save after a step, from what this process wishes."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the loop ended: steps that were charged, and whether it stopped early, to be resumed."""

    charged: int
    interrupted: bool

    def require_finished(self) -> None:
        """Ends a command that Ctrl-C has stopped early, and says how to go on."""
        if self.interrupted:
            raise interrupted_after(self.charged)


def take_steps(
    charged: int,  # the last step that was charged, taken or lost
    steps: int,
    *,
    take: Callable[[int], None],  # charges and takes a step
    save: Callable[[int], None],  # writes the state after a step
    save_every: float,  # seconds
    agree: Agree = lambda step, stop, late: (stop, late),  # settles with other processes
) -> int:
    """Takes the steps that are left and returns the last one that was charged.

    On Ctrl-C the step under way is finished and saved; in the last step it is a KeyboardInterrupt.
    """
    saved_at = time.monotonic()
    with state.interrupts() as interrupted:
        stop = False
        while charged < steps and not stop:
            charged += 1
            take(charged)
            late = time.monotonic() - saved_at > save_every
            stop, due = agree(charged, interrupted(), late)
            if due:
                save(charged)
                saved_at = time.monotonic()
        save(charged)
        # Whoever goes on after the last step would not hear of it.
        if charged >= steps and agree(charged, interrupted(), False)[0]:
            raise interrupted_after(charged)
    return charged


def interrupted_after(charged: int) -> KeyboardInterrupt:
    """Returns what ends a command after Ctrl-C, and says how to go on."""
    return KeyboardInterrupt(
        f"after {counted(charged, 'step')}, and saved; go on with the same command and --resume"
    )


def require_state(folder: Path, steps: int, *, charged: int, restored: int) -> None:
    """Raises CheckpointError where charges are lost, or nothing is left to finish from."""
    if restored > charged:
        raise CheckpointError(
            f"The run in '{folder}' saved step {restored}, and its log '{STEPS}' charges "
            f"{charged}: charges are lost. Restore the log, or start a new run in another "
            "folder; what this one spent stays spent."
        )
    if charged >= steps and not restored:
        raise CheckpointError(
            f"All {steps} steps of the run in '{folder}' are charged and no state was saved, so "
            "there is nothing to finish. Start a new run in another folder; what this one spent "
            "stays spent."
        )


def train_without_privacy(
    run: Run,
    *,
    steps: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    step: Callable[[int], float],  # takes step number n (from 1) and returns its mean loss
    save: Callable[[Path], None],  # writes the checkpoint
    title: str,
    quiet: bool = False,
) -> Outcome:
    """Trains in a run folder where nothing is spent, and keeps a checkpoint after the last step.

    So a lost log costs nothing, and steps after the last saved state are taken again. Where the
    disk is full that state stays. A loss that is no number is a HushdocError. A run that has ended
    takes no step and leaves the model as it is: its weights are in the checkpoint.
    """
    moved = earlier_steps.Moved(dict(model.named_parameters()), private=False)
    with state.locked(run.folder / SETTINGS), ExitStack() as last:
        last.callback(lambda: moved.end(dict(model.named_parameters())))
        if run.is_finished:  # and killed before its states were gone, or resumed once more
            state.discard_states(run.folder)
            return Outcome(charged=steps, interrupted=False)
        log = StepLog(run.log, run.run_id, private=False)
        log.charged, _ = state.restore(run.folder, model, optimizer)
        report = StepReport(
            log,
            run.folder / "training.png",
            steps=steps,
            epsilon_after=None,
            title=title,
            quiet=quiet,
        )

        def take(number: int) -> None:
            log.charge(number)
            loss = step(number)
            if not math.isfinite(loss):
                raise HushdocError(
                    f"The loss of step {number} is {loss}, so that this training makes no model. "
                    "Train anew in another folder, with a smaller learning rate.",
                    code="NOT_FINITE",
                )
            report.show(number, loss=loss)

        taken = take_steps(
            log.charged,
            steps,
            take=take,
            save=lambda number: state.save(run.folder, number, model, optimizer),
            save_every=SAVE_EVERY_SECONDS,
        )
        report.close()
        if taken == steps:
            save(run.folder / CHECKPOINT)
            state.discard_states(run.folder)
    return Outcome(charged=taken, interrupted=taken < steps)
