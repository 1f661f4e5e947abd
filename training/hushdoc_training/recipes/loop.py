"""The training loop: steps, charges, interrupts, resumable state."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

from hushdoc import files
from hushdoc.errors import CheckpointError
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.recipes.progress import Progress, StepLog, plot
from hushdoc_training.recipes.run import STEPS, Run

SAVE_EVERY_SECONDS = 120.0

ChargeFunction = Callable[[int], None]
"""Charges step number n elsewhere too, and returns once that can't be lost."""

StepFunction = Callable[[int], float | None]
"""Takes step number n (from 1) and returns its mean loss, None for a step without records."""


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
    *,
    steps: int,
    model: TokenClassifier,
    optimizer: torch.optim.Optimizer,
    step: StepFunction,
    epsilon_after: Callable[[int], float] | None,
    title: str,
    charge: ChargeFunction | None = None,
    already_charged: int = 0,
    quiet: bool = False,
) -> Outcome:
    """Runs the steps that are not charged yet.

    Args:
        run: The run folder.
        steps: Steps in all; a resumed run never exceeds them, lost ones included.
        model: Saved and restored with the optimizer.
        optimizer: The plain torch optimizer.
        step: Takes one step.
        epsilon_after: Epsilon after that many steps, None where nothing is promised.
        title: For the plot.
        charge: A ledger's; it is charged before the run's own log, so never holds less.
        already_charged: What that ledger holds; the log may lack the last of it after a crash.
        quiet: Show no progress.

    Returns:
        How it ended. On Ctrl-C the step under way is finished and saved first.

    Raises:
        CheckpointError: The saved state can't be read.
        OutputWriteError: The disk is full; the last saved state stays.
    """
    log = StepLog(run.folder / STEPS)
    restored = _restore(run.folder, model, optimizer)
    progress = Progress(steps, epsilon_after=epsilon_after, quiet=quiet)
    saved_at = time.monotonic()
    charged = max(log.charged, already_charged)
    if charged >= steps and not restored:
        raise CheckpointError(
            f"All {steps} steps of the run in '{run.folder}' are charged and no state was saved, "
            "so there is nothing to finish. Start a new run in another folder; what this one "
            "spent stays spent."
        )
    with _interrupts() as interrupted:
        while charged < steps and not interrupted():
            charged += 1
            if charge is not None:
                charge(charged)
            log.charge(charged, sync=epsilon_after is not None)
            loss = step(charged)
            spent = progress.show(charged, loss=float("nan") if loss is None else loss)
            log.finish(charged, loss=loss, epsilon=spent)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                _save(run.folder, charged, model, optimizer)
                saved_at = time.monotonic()
        progress.close()
        _save(run.folder, charged, model, optimizer)
    plot(run.folder / "training.png", log.entries, title=title)
    return Outcome(charged=charged, interrupted=charged < steps)


def discard_states(folder: Path) -> None:
    """Removes what only a resumed run would need."""
    for state in folder.glob("state-*"):
        shutil.rmtree(state, ignore_errors=True)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a question: has Ctrl-C been pressed? A second press stops at once."""
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    try:
        previous = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: whoever runs it keeps its own handling
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)


def _save(
    folder: Path, step: int, model: TokenClassifier, optimizer: torch.optim.Optimizer
) -> None:
    from safetensors.torch import save_file

    target = folder / f"state-{step:08d}"
    if target.exists():
        return
    tensors = {
        f"model.{name}": value.detach().cpu().contiguous()
        for name, value in model.named_parameters()
    }
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value).cpu().contiguous()
    try:
        with files.new_folder(target) as partial:
            save_file(tensors, partial / "state.safetensors")
    except Exception as error:
        if isinstance(error, OSError) or "No space left" in str(error):
            cause = error if isinstance(error, OSError) else OSError(28, str(error))
            raise files.not_written(target, cause) from error
        raise
    for old in sorted(folder.glob("state-*"))[:-1]:
        shutil.rmtree(old, ignore_errors=True)


def _restore(folder: Path, model: TokenClassifier, optimizer: torch.optim.Optimizer) -> bool:
    """Loads the newest saved state and returns whether there was one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    states = sorted(folder.glob("state-*"))
    if not states:
        return False
    try:
        tensors = load_file(states[-1] / "state.safetensors")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(tensors[f"model.{name}"])
        stored = optimizer.state_dict()
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in tensors.items():
            kind, _, rest = key.partition(".")
            if kind == "optimizer":
                index, _, name = rest.partition(".")
                state.setdefault(int(index), {})[name] = value
        optimizer.load_state_dict({**stored, "state": state})
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"The saved state '{states[-1]}' can't be read: {error}. Start a new run in another "
            "folder; what this one spent stays spent."
        ) from error
    return True
